#include "coordinator/planner/host_pairs.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

#include "absl/status/statusor.h"
#include "coordinator/predictor/reductions.h"
#include "runtime/ir/collective/all_reduce_schedule.h"
#include "runtime/ir/job/reduction_choice.h"
#include "runtime/ir/program/program.h"

namespace medley {
namespace {

// What the ranks of a unit sum of a block, forward and backward.
constexpr double kExchangesOfBlock = 4;

class PairsInUse {
 public:
  PairsInUse(const PlanningProblem& problem, const Plan& plan, std::vector<int> device_of_rank)
      : problem_(problem), plan_(plan), device_of_rank_(std::move(device_of_rank)) {}

  std::vector<HostPair> Run() {
    AddMessagesAndSums();
    AddExchanges();
    std::vector<HostPair> pairs;
    for (const auto& [hosts, seconds] : seconds_) pairs.push_back({hosts.first, hosts.second, seconds});
    std::stable_sort(pairs.begin(), pairs.end(),
                     [](const HostPair& a, const HostPair& b) { return a.seconds > b.seconds; });
    return pairs;
  }

 private:
  void AddMessagesAndSums() {
    std::map<std::pair<std::vector<Rank>, int64_t>, int> sums;  // by holders and elements
    for (Rank rank = 0; rank < RankCount(plan_); ++rank) {
      const StepProgram program = CompileStep(plan_, rank, problem_.shape, Purpose::kTrain);
      for (const Instruction& instruction : program.instructions) {
        if (instruction.kind != InstructionKind::kSendActivation &&
            instruction.kind != InstructionKind::kSendGradient)
          continue;
        const LinkModel& transfer = LinkBetween(rank, instruction.peer).transfer;
        Add(rank, instruction.peer, transfer.Seconds(static_cast<double>(instruction.bytes.value)));
      }
      for (const GradientSlice& slice : program.slices)
        if (slice.holders.front() == rank) ++sums[{slice.holders, slice.elements}];
    }
    const absl::StatusOr<std::vector<ReductionChoice>> reductions = ReductionsOf(problem_, plan_);
    if (!reductions.ok()) return;
    // What is gathered, half of what is sent, is f32.
    const double bytes_per_element = plan_.shards_optimizer
                                         ? (problem_.wire_bytes_per_element + kGatheredBytesPerElement) / 2
                                         : problem_.wire_bytes_per_element;
    for (const auto& [sum, times] : sums) {
      const auto& [holders, elements] = sum;
      AddSum(holders, elements, ChoiceFor(*reductions, holders, elements), bytes_per_element, times);
    }
  }

  // Of units that are not on one host. However they are cut, they are as many bytes as sums of whole micro-batches.
  void AddExchanges() {
    const absl::StatusOr<std::vector<ReductionChoice>> exchanges = ExchangesOf(problem_, plan_);
    if (!exchanges.ok()) return;
    for (int u = 0; u < static_cast<int>(plan_.units.size()); ++u) {
      const Unit& unit = plan_.units[u];
      const std::vector<int> numbers = RanksOf(plan_, u);
      const std::vector<Rank> ranks(numbers.begin(), numbers.end());
      for (const Visit& visit : VisitsOf(plan_, u)) {
        const int64_t elements =
            int64_t{visit.micro_batch_sequences} * problem_.shape.sequence * problem_.shape.model.hidden;
        AddSum(ranks, elements, ChoiceFor(*exchanges, ranks, elements),
               static_cast<double>(SizeOf(unit.activations).value),
               kExchangesOfBlock * unit.chunks[visit.chunk].size() * visit.micro_batches);
      }
    }
  }

  void AddSum(const std::vector<Rank>& members, int64_t elements, const CollectiveChoice& choice,
              double bytes_per_element, double times) {
    const bool on_one_host = std::all_of(members.begin(), members.end(), [&](Rank rank) {
      return HostOfRank(rank) == HostOfRank(members.front());
    });
    if (on_one_host) return;
    const absl::StatusOr<CollectiveSchedule> schedule =
        AllReduceSchedule(static_cast<int>(members.size()), elements, choice);
    if (!schedule.ok()) return;
    for (size_t member = 0; member < members.size(); ++member) {
      for (const CollectiveStep& step : schedule->steps[member]) {
        if (!step.Sends()) continue;
        const Rank from = members[member], to = members[step.peer];
        const double bytes = bytes_per_element * static_cast<double>(step.range.size());
        Add(from, to, times * LinkBetween(from, to).exchange.Seconds(bytes));
      }
    }
  }

  void Add(Rank from, Rank to, double seconds) {
    const auto [first, second] = std::minmax({HostOfRank(from), HostOfRank(to)});
    if (first != second) seconds_[{first, second}] += seconds;
  }

  int HostOfRank(Rank rank) const { return HostOf(problem_, device_of_rank_[rank]); }
  const LinkCost& LinkBetween(Rank a, Rank b) const {
    return problem_.links.Between(device_of_rank_[a], device_of_rank_[b]);
  }

  const PlanningProblem& problem_;
  const Plan& plan_;
  const std::vector<int> device_of_rank_;
  std::map<std::pair<int, int>, double> seconds_;  // by hosts
};

}  // namespace

std::vector<HostPair> HostPairsInUse(const PlanningProblem& problem, const Plan& plan) {
  absl::StatusOr<std::vector<int>> device_of_rank = DevicesOfRanks(DevicesByName(problem), plan);
  if (!device_of_rank.ok()) return {};
  return PairsInUse(problem, plan, *std::move(device_of_rank)).Run();
}

}  // namespace medley
