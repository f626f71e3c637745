#include "coordinator/planner/techniques/memory_saving.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "runtime/base/some_names.h"
#include "runtime/ir/model/parameters.h"
#include "runtime/ir/program/gradient_slices.h"
#include "runtime/ir/program/memory.h"

namespace medley {
namespace {

// The greatest weight begins with the first, which makes small numbers of them, and where these are too coarse with the
// other.
constexpr int kStartWeights[] = {1000, kMostOptimizerWeight};
// Each goes through all units once; few are needed unless the rooms are as good as full.
constexpr int kMostRounds = 100;
constexpr double kRounding = 1e-9;
constexpr size_t kNamed = 4;

// What some of the units of a plan do.
struct Technique {
  std::function<bool(UnitId)> used;
  std::function<void(Plan&)> undo;
  std::vector<InstructionKind> takes;  // by those that are executed for it
};

// Where that saves most, and what it takes where it takes most.
struct TechniqueUse {
  std::vector<Rank> ranks;
  Rank most = -1;  // that saves most
  Bytes saved;     // there
  double seconds = 0;

  // "n/0, n/1"
  std::string Devices(const Plan& plan) const {
    std::vector<std::string> devices;
    for (const Rank rank : ranks) devices.push_back(DeviceOf(plan, rank));
    return SomeNames(devices, kNamed);
  }
  // "saves 1.0 MiB on n/0"
  std::string Saves(const Plan& plan) const {
    return absl::StrCat("saves ", FormatBytes(saved), " on ", DeviceOf(plan, most));
  }
};

TechniqueUse UseOf(const Technique& technique, const PlanningProblem& problem, const Plan& plan,
                   const StepPrediction& prediction) {
  TechniqueUse use;
  Rank rank_of_unit = 0;
  for (UnitId u = 0; u < static_cast<int>(plan.units.size()); ++u) {
    const bool used = technique.used(u);
    for (size_t member = 0; member < plan.units[u].devices.size(); ++member, ++rank_of_unit) {
      if (used) use.ranks.push_back(rank_of_unit);
    }
  }
  if (use.ranks.empty()) return use;
  Plan without = plan;
  technique.undo(without);
  for (const Rank rank : use.ranks) {
    if (prediction.stand_ins[rank] != rank) continue;
    const Bytes saved =
        MemoryOfRank(without, rank, problem.shape).total() - prediction.ranks[rank].memory.total();
    if (use.most < 0 || saved > use.saved) {
      use.most = rank;
      use.saved = saved;
    }
    const StepProgram program = CompileStep(plan, rank, problem.shape, Purpose::kTrain);
    for (const InstructionKind kind : technique.takes) {
      double seconds = 0;
      for (size_t i = 0; i < program.instructions.size(); ++i) {
        const InstructionTime& time = prediction.ranks[rank].timeline[i];
        if (program.instructions[i].kind == kind) seconds += time.end_seconds - time.start_seconds;
      }
      use.seconds = std::max(use.seconds, seconds);
    }
  }
  return use;
}

double PercentOf(const StepPrediction& prediction, double seconds) {
  return prediction.step_seconds > 0 ? 100 * seconds / prediction.step_seconds : 0;
}

// "1 to 3 of 6 layers", of which units that `does` do it, a field of theirs being of how many; "": of all of them.
std::string SomeLayers(const Plan& plan, const ModelConfig& model,
                       const std::function<bool(const Unit&)>& does, int Unit::*of_layers) {
  int fewest = std::numeric_limits<int>::max(), most = 0, held = 0;
  bool all = true;
  for (const Unit& unit : plan.units) {
    if (!does(unit)) continue;
    const int layers = LayersOf(unit, model), some = unit.*of_layers > 0 ? unit.*of_layers : layers;
    all = all && some == layers;
    fewest = std::min(fewest, some);
    most = std::max(most, some);
    held = std::max(held, layers);
  }
  if (all) return "";
  return absl::StrCat(fewest, fewest < most ? absl::StrCat(" to ", most) : "", " of ", held, " layers");
}

// "saves 1.0 MiB on n/0, for 2.0 MiB of 8.0 GiB there; copies one way take 3.0 % of the step at most, beside what computes"
std::string DescribeCopies(const TechniqueUse& use, const PlanningProblem& problem, const Plan& plan,
                           const StepPrediction& prediction) {
  const Bytes host_memory = FindDevice(problem, DeviceOf(plan, use.most))->host_memory;
  return absl::StrFormat(
      "%s, for %s%s there; copies one way take %.1f %% of the step at most, beside what computes",
      use.Saves(plan), FormatBytes(prediction.ranks[use.most].memory.host),
      host_memory > Bytes{0} ? absl::StrCat(" of ", FormatBytes(host_memory)) : "",
      PercentOf(prediction, use.seconds));
}

// Empty: nobody holds what others hold.
std::string DescribeSharding(const PlanningProblem& problem, const Plan& plan,
                             const StepPrediction& prediction) {
  std::vector<bool> shares;        // by unit
  std::vector<std::string> units;  // that hold what others hold, too
  std::set<int> weights;
  std::map<Rank, bool> known;
  Rank first = 0;
  for (const Unit& unit : plan.units) {
    const auto [of_stand_in, is_new] = known.try_emplace(prediction.stand_ins[first], false);
    if (is_new) of_stand_in->second = !SlicesOf(plan, of_stand_in->first, problem.shape.model).empty();
    first = first + static_cast<int>(unit.devices.size());
    shares.push_back(of_stand_in->second);
    if (!shares.back()) continue;
    weights.insert(unit.optimizer_weight);
    units.push_back(absl::StrCat(absl::StrJoin(unit.devices, "+"), " ", unit.optimizer_weight));
  }
  if (units.empty()) return "";
  const TechniqueUse use = UseOf({[&](UnitId unit) { return shares[unit.value()]; },
                                  [](Plan& whole) { whole.shards_optimizer = false; },
                                  {}},
                                 problem, plan, prediction);
  return absl::StrCat("units that hold the same parameters share the optimizer's state of them ",
                      weights.size() == 1 ? "evenly" : absl::StrCat("by weights: ", SomeNames(units, kNamed)),
                      " (", use.Saves(plan), ")");
}

}  // namespace

MemorySaving SavingOf(const PlanningProblem& problem) {
  const bool allowed = problem.constraints.saves_memory;
  return {.recomputes = allowed, .shards_optimizer = allowed, .homes_layers = allowed};
}

Bytes HomeBytes(const ModelConfig& model, const ModelShare& share, int layers) {
  const int64_t elements = SegmentElements(LocalModel(model, share), SegmentOfBlock(BlockOfLayer(0)));
  return {layers * elements * (2 * SizeOf(Dtype::kF32).value + kOptimizerBytes)};
}

std::string DescribeLimit(const DeviceRoom& room) {
  const std::string memory = FormatBytes(room.memory);
  if (room.largest_buffer == Bytes{0}) return memory;
  return absl::StrCat(memory, ", ", FormatBytes(room.largest_buffer), " in one buffer");
}

void UnitSaving::Set(Unit& unit) const {
  unit.recompute = recompute;
  unit.recomputed_layers = recomputed_layers;
  unit.window_layers = window_layers;
  unit.activations_home = activations_home;
  unit.homed_layers = 0;
  unit.sequence_parallel = sequence_parallel;
}

OptimizerSharding::OptimizerSharding(const PlanningProblem& problem, Plan plan)
    : problem_(problem), plan_(std::move(plan)) {
  plan_.shards_optimizer = true;
  for (int u = 0; u < static_cast<int>(plan_.units.size()); ++u) {
    plan_.units[u].optimizer_weight = 1;
    first_rank_.push_back(static_cast<int>(unit_of_.size()));
    unit_of_.insert(unit_of_.end(), plan_.units[u].devices.size(), u);
  }
  first_rank_.push_back(static_cast<int>(unit_of_.size()));
  for (Rank rank = 0; rank < static_cast<int>(unit_of_.size()); ++rank) {
    std::vector<SharedSlice>& shared = slices_.emplace_back();
    for (GradientSlice& slice : SlicesOf(plan_, rank, problem.shape.model)) {
      const auto own = std::find(slice.holders.begin(), slice.holders.end(), rank);
      const size_t place = own - slice.holders.begin();
      shared_elements_ += static_cast<double>(slice.elements) / static_cast<double>(slice.holders.size());
      shared.push_back({slice.elements, std::move(slice.holders), place});
    }
  }
  rooms_.resize(unit_of_.size() * kRecomputes);
}

bool OptimizerSharding::CanShard() const {
  return std::any_of(slices_.begin(), slices_.end(),
                     [](const std::vector<SharedSlice>& shared) { return !shared.empty(); });
}

void OptimizerSharding::KnowRoom(Rank rank, Recompute recompute, int64_t bytes) {
  rooms_[rank * kRecomputes + static_cast<int>(recompute)] = bytes < 0 ? -1 : bytes / kOptimizerBytes;
}

// Elements of what it shares that a rank has room for the optimizer's state of; negative: it does not fit
// without any of them.
int64_t OptimizerSharding::Room(Rank rank, Recompute recompute) {
  std::optional<int64_t>& known = rooms_[rank * kRecomputes + static_cast<int>(recompute)];
  if (known) return *known;
  Unit& unit = plan_.units[unit_of_[rank]];
  unit.recompute = recompute;
  unit.recomputed_layers = 0;
  RankMemory beside = MemoryOfRank(plan_, rank, problem_.shape);
  beside.optimizer = {};
  int64_t unshared = beside.parameters.value / SizeOf(Dtype::kF32).value;
  for (const SharedSlice& slice : slices_[rank]) unshared -= slice.elements;
  const Bytes left =
      LeftFor(beside, RoomOf(problem_, plan_, rank)) - beside.total() - Bytes{kOptimizerBytes * unshared};
  known = left.value < 0 ? -1 : left.value / kOptimizerBytes;
  return *known;
}

int64_t OptimizerSharding::Load(Rank rank, const std::vector<int>& weights) const {
  int64_t elements = 0;
  std::vector<double> shares;
  for (const SharedSlice& slice : slices_[rank]) {
    shares.clear();
    for (const Rank holder : slice.holders) shares.push_back(weights[unit_of_[holder]]);
    elements += OwnedSlices(slice.elements, static_cast<int>(shares.size()), shares)[slice.place].size();
  }
  return elements;
}

bool OptimizerSharding::Exceeds(int unit, const std::vector<int>& weights,
                                const std::vector<int64_t>& rooms) const {
  for (Rank rank = first_rank_[unit]; rank < first_rank_[unit + 1]; ++rank) {
    if (Load(rank, weights) > rooms[rank]) return true;
  }
  return false;
}

// Whether one of the holders of everything that units share has a weight.
bool OptimizerSharding::Carried(const std::vector<int>& weights) const {
  for (const std::vector<SharedSlice>& shared : slices_) {
    for (const SharedSlice& slice : shared) {
      if (unit_of_[slice.holders.front()] == unit_of_[slice.holders.back()]) continue;  // carried in any case
      if (std::none_of(slice.holders.begin(), slice.holders.end(),
                       [&](Rank holder) { return weights[unit_of_[holder]] > 0; }))
        return false;
    }
  }
  return true;
}

// What a unit carries grows with its own weight and falls as another's grows. So if weights fit that are
// nowhere greater than these, lowering one to the greatest that fits beside the others leaves it no less than
// its weight among those: this ends at the greatest weights that fit, or shows that there are none.
std::optional<std::vector<int>> OptimizerSharding::Lowered(std::vector<int> weights,
                                                           const std::vector<int64_t>& rooms) const {
  const int units = static_cast<int>(plan_.units.size());
  for (int round = 0; round < kMostRounds; ++round) {
    bool lowered = false;
    for (int u = 0; u < units; ++u) {
      if (weights[u] == 0 || !Exceeds(u, weights, rooms)) continue;
      int fits = 0, exceeds = weights[u];
      while (exceeds - fits > 1) {
        weights[u] = (fits + exceeds) / 2;
        (Exceeds(u, weights, rooms) ? exceeds : fits) = weights[u];
      }
      weights[u] = fits;
      lowered = true;
      if (!Carried(weights)) return std::nullopt;
    }
    if (lowered) continue;
    const int divisor =
        std::accumulate(weights.begin(), weights.end(), 0, [](int a, int b) { return std::gcd(a, b); });
    for (int& weight : weights) weight /= std::max(1, divisor);
    return weights;
  }
  return std::nullopt;
}

std::optional<Plan> OptimizerSharding::Fit(const std::vector<UnitSaving>& savings,
                                           const std::vector<int>& wanted) {
  std::vector<int64_t> rooms;
  double room = 0;  // of all together
  for (Rank rank = 0; rank < static_cast<int>(unit_of_.size()); ++rank) {
    const UnitSaving& saving = savings[unit_of_[rank]];
    int64_t held = 0;
    for (const SharedSlice& slice : slices_[rank]) held += slice.elements;
    rooms.push_back(saving.window_layers > 0 ? held : Room(rank, saving.recompute));
    if (rooms.back() < 0) return std::nullopt;
    room += static_cast<double>(std::min(rooms.back(), held));
  }
  if (room < shared_elements_ * (1 - kRounding)) return std::nullopt;
  Plan fitting = plan_;
  for (size_t u = 0; u < fitting.units.size(); ++u) {
    fitting.units[u].recompute = savings[u].recompute;
    fitting.units[u].recomputed_layers = 0;
    fitting.units[u].window_layers = savings[u].window_layers;
  }
  const int64_t most = wanted.empty() ? 1 : *std::max_element(wanted.begin(), wanted.end());
  for (const int start : kStartWeights) {
    std::vector<int> begin(fitting.units.size(), start);
    for (size_t u = 0; u < wanted.size(); ++u) begin[u] = static_cast<int>(start * wanted[u] / most);
    const std::optional<std::vector<int>> weights = Lowered(std::move(begin), rooms);
    if (!weights) continue;
    int divisor = 0;
    for (size_t u = 0; u < fitting.units.size(); ++u) {
      if (!slices_[first_rank_[u]].empty()) divisor = std::gcd(divisor, (*weights)[u]);
    }
    for (size_t u = 0; u < fitting.units.size(); ++u) {
      const bool shares = !slices_[first_rank_[u]].empty();
      fitting.units[u].optimizer_weight = shares ? (*weights)[u] / std::max(1, divisor) : 1;
    }
    // What a rank owns may be in more runs than the model without it counts.
    if (FitsMemory(problem_, fitting)) return fitting;
  }
  return std::nullopt;
}

std::vector<std::string> DescribeSaving(const PlanningProblem& problem, const Plan& plan,
                                        const StepPrediction& prediction) {
  std::vector<std::string> sentences;
  const auto use_of = [&](const std::function<bool(const Unit&)>& used,
                          const std::function<void(Unit&)>& undo, std::vector<InstructionKind> takes) {
    return UseOf({[&](UnitId unit) { return used(plan.units[unit]); },
                  [&](Plan& without) {
                    for (Unit& unit : without.units) {
                      if (used(unit)) undo(unit);
                    }
                  },
                  std::move(takes)},
                 problem, plan, prediction);
  };
  const TechniqueUse windows =
      use_of([](const Unit& unit) { return unit.lives_on_host(); },
             [](Unit& unit) { unit.window_layers = 0; }, {InstructionKind::kFetch, InstructionKind::kStore});
  if (!windows.ranks.empty()) {
    std::vector<std::string> devices;
    for (const Rank rank : windows.ranks) {
      const Unit& unit = plan.units[PlaceOf(plan, rank).unit];
      devices.push_back(absl::StrCat(DeviceOf(plan, rank), " (", unit.window_layers, " of ",
                                     LayersOf(unit, problem.shape.model), " layers at a time)"));
    }
    sentences.push_back(absl::StrCat("layers live in host memory on ", SomeNames(devices, kNamed), " (",
                                     DescribeCopies(windows, problem, plan, prediction), ")"));
  }
  for (const Recompute recompute : kRecomputesByTime) {
    if (recompute == Recompute::kNone) continue;
    const auto recomputes = [&](const Unit& unit) { return unit.recompute == recompute; };
    const TechniqueUse use = use_of(recomputes,
                                    [](Unit& unit) {
                                      unit.recompute = Recompute::kNone;
                                      unit.recomputed_layers = 0;
                                    },
                                    {InstructionKind::kRecompute});
    if (use.ranks.empty()) continue;
    const std::string some = SomeLayers(plan, problem.shape.model, recomputes, &Unit::recomputed_layers);
    sentences.push_back(
        absl::StrFormat("%s recompute%s %s%s instead of keeping it (%s; takes %.1f %% of the step at most)",
                        use.Devices(plan), use.ranks.size() == 1 ? "s" : "", some.empty() ? "layers" : some,
                        recompute == Recompute::kLayers ? "" : " but attention", use.Saves(plan),
                        PercentOf(prediction, use.seconds)));
  }
  const TechniqueUse rows = use_of([](const Unit& unit) { return unit.sequence_parallel; },
                                   [](Unit& unit) { unit.sequence_parallel = false; }, {});
  if (!rows.ranks.empty()) {
    sentences.push_back(
        absl::StrCat(rows.Devices(plan),
                     " have their own rows of what is between products, which sequence parallelism "
                     "cuts among the devices of a unit (",
                     rows.Saves(plan), ")"));
  }
  const auto stores = [](const Unit& unit) { return unit.activations_home == ActivationsHome::kHost; };
  const TechniqueUse homes = use_of(stores, [](Unit& unit) { unit.KeepActivationsOnDevice(); },
                                    {InstructionKind::kFetch, InstructionKind::kStore});
  if (!homes.ranks.empty()) {
    const std::string some = SomeLayers(plan, problem.shape.model, stores, &Unit::homed_layers);
    sentences.push_back(absl::StrCat("what forwards keep ",
                                     some.empty() ? "" : absl::StrCat("of ", some, " "),
                                     "goes to host memory and comes back on ", homes.Devices(plan), " (",
                                     DescribeCopies(homes, problem, plan, prediction), ")"));
  }
  if (plan.shards_optimizer) {
    if (std::string sharing = DescribeSharding(problem, plan, prediction); !sharing.empty())
      sentences.push_back(std::move(sharing));
  }
  return sentences;
}

}  // namespace medley
