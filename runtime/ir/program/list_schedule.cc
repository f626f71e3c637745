#include "runtime/ir/program/list_schedule.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace medley {
namespace {

constexpr double kNever = PassSimulation::kNever;

class ListScheduler {
 public:
  ListScheduler(const PassGraph& graph, const ListRule& rule, PassSimulation& simulation, PassOrders& orders)
      : graph_(graph),
        rule_(rule),
        onwards_(simulation.direction() == Direction::kOnwards),
        simulation_(simulation),
        orders_(orders),
        units_(graph.units()),
        best_pass_(std::max(1, graph.units()), -1),
        best_begin_(best_pass_.size(), kNever),
        tie_seconds_(1e-9 * std::accumulate(graph.seconds().begin(), graph.seconds().end(), 0.0) /
                     std::max(1, graph.passes())),
        apart_(graph.stages().size()),
        run_(graph.stages().size(), {0, 0, 0}),
        joined_run_(graph.stages().size(), 0) {
    FindApart();
    if (rule.in_buffers) FindBuffers();
    if (rule.leaves_room && onwards_ && !rule.in_buffers) FindRoom();
    for (int s = 0; s < static_cast<int>(graph.stages().size()); ++s) CountPasses(s);
    for (UnitState& unit : units_) SkipPhases(unit);
  }

  bool Run(const std::vector<double>& free_from) {
    simulation_.Reset(rule_.joined, free_from);
    orders_.joined = rule_.joined;
    orders_.of_unit.assign(graph_.units(), {});
    for (int u = 0; u < graph_.units(); ++u) FindBest(u);
    while (true) {
      int pass = best_pass_[std::min_element(best_begin_.begin(), best_begin_.end()) - best_begin_.begin()];
      if (pass < 0 && rule_.when_full == ListRule::WhenFull::kTakeOneMore) pass = OneMore();
      if (pass < 0) break;
      Take(pass);
    }
    if (!onwards_) {
      for (std::vector<int>& passes : orders_.of_unit) std::reverse(passes.begin(), passes.end());
    }
    return std::all_of(units_.begin(), units_.end(), [](const UnitState& unit) { return unit.left == 0; });
  }

 private:
  struct UnitState {
    double kept = 0;
    int in_flight = 0;         // forwards whose last gradient is to come
    int left = 0;              // passes
    std::vector<int> left_of;  // of each phase
    int phase = 0;
  };

  bool Joined(int pass) const { return !rule_.joined.empty() && rule_.joined[pass] != 0; }
  // The weights' gradients of others are in no list, their inputs' being backwards whole.
  void FindApart() {
    for (int s = 0; s < static_cast<int>(graph_.stages().size()); ++s) {
      for (int m = 0; m < graph_.stages()[s].micro_batches; ++m) {
        if (!Joined(graph_.PassOf(s, PassKind::kInputGradient, m))) apart_[s].push_back(m);
      }
    }
  }
  int CountOf(int s, PassKind kind) const {
    return kind == PassKind::kWeightGradient ? static_cast<int>(apart_[s].size())
                                             : graph_.stages()[s].micro_batches;
  }

  void FindBuffers() {
    std::vector<char> splits;
    for (const std::vector<int>& apart : apart_) splits.push_back(apart.empty() ? 0 : 1);
    for (int u = 0; u < graph_.units(); ++u) {
      buffers_.emplace_back(graph_, u);
      buffers_.back().HaveOneOfEach(graph_, u, splits);
    }
  }

  void FindRoom() {
    room_.assign(graph_.units(), 0);
    for (int s = 0; s < static_cast<int>(graph_.stages().size()); ++s) {
      if (apart_[s].empty()) continue;
      const PassGraph::Stage& stage = graph_.stages()[s];
      room_[stage.unit] = std::max(room_[stage.unit], stage.deferred - stage.kept);
    }
  }

  void CountPasses(int s) {
    UnitState& unit = units_[graph_.stages()[s].unit];
    for (int k = 0; k < kPassKinds; ++k) {
      const int count = CountOf(s, static_cast<PassKind>(k));
      if (count == 0) continue;
      unit.left += count;
      if (rule_.phase.empty()) continue;
      const int phase = rule_.phase[s][k];
      if (static_cast<int>(unit.left_of.size()) <= phase) unit.left_of.resize(phase + 1, 0);
      unit.left_of[phase] += count;
    }
  }

  // On to the first phase that has passes left.
  static void SkipPhases(UnitState& unit) {
    const int phases = static_cast<int>(unit.left_of.size());
    while (unit.phase < phases && unit.left_of[unit.phase] == 0) ++unit.phase;
  }

  // The next pass of a kind, whether or not it is ready; -1: there is none that the rule allows, which is so
  // for now or for good.
  int NextOf(int s, PassKind kind, bool although_full) const {
    const PassGraph::Stage& stage = graph_.stages()[s];
    const int run = run_[s][static_cast<int>(kind)];
    if (run == CountOf(s, kind)) return -1;
    const UnitState& unit = units_[stage.unit];
    if (!rule_.phase.empty() && rule_.phase[s][static_cast<int>(kind)] != unit.phase) return -1;
    if (kind == PassKind::kForward && !rule_.stage_limit.empty()) {
      const ListRule::StageLimit& limit = rule_.stage_limit[s];
      const int of_input = run_[s][static_cast<int>(PassKind::kInputGradient)],
                of_weights = run_[s][static_cast<int>(PassKind::kWeightGradient)] + joined_run_[s];
      if (run - of_input >= limit.before_input_gradient || run - of_weights >= limit.before_weight_gradient)
        return -1;
    }
    const int place = onwards_ ? run : CountOf(s, kind) - 1 - run;
    const int pass = graph_.PassOf(s, kind, kind == PassKind::kWeightGradient ? apart_[s][place] : place);
    // Backwards, what lies between two gradients leaves no buffer to the whole backwards of micro-batches behind it.
    if (rule_.in_buffers && !onwards_ && kind == PassKind::kWeightGradient &&
        joined_run_[s] < stage.micro_batches - 1 - graph_.pass(pass).micro_batch - run)
      return -1;
    if (kind == PassKind::kForward && !rule_.unit_limit.empty() && !although_full &&
        unit.in_flight >= rule_.unit_limit[stage.unit]) {
      return -1;
    }
    if (!rule_.memory_limit.empty() && !although_full) {
      // Sums of what is not whole are off by little.
      const double room = kind == PassKind::kForward && !room_.empty() ? room_[stage.unit] : 0,
                   limit = rule_.memory_limit[stage.unit] * (1 + 1e-9) - room;
      const Direction direction = simulation_.direction();
      const double more = rule_.in_buffers
                              ? buffers_[stage.unit].MoreFor(stage, kind, Joined(pass), direction)
                              : MemoryChangeOf(stage, kind, Joined(pass), direction).begin;
      const double kept = rule_.in_buffers ? buffers_[stage.unit].total() : unit.kept;
      if (more > 0 && kept + more > limit) return -1;
    }
    return pass;
  }

  void FindBest(UnitId u) {
    int best = -1;
    double best_begin = kNever;
    for (const int s : graph_.StagesOf(u)) {
      for (int k = 0; k < kPassKinds; ++k) {
        const int pass = NextOf(s, static_cast<PassKind>(k), false);
        if (pass < 0) continue;
        const double ready = simulation_.ReadyAt(pass);
        if (ready == kNever) continue;
        const double begin = std::max(ready, simulation_.FreeAt(u));
        if (best < 0 || begin < best_begin - tie_seconds_ ||
            (begin <= best_begin + tie_seconds_ && rule_.key[pass] < rule_.key[best])) {
          best = pass;
          best_begin = begin;
        }
      }
    }
    best_pass_[u] = best;
    best_begin_[u] = best_begin;
  }

  // The forward that is run although its unit is full; -1: none is ready.
  int OneMore() const {
    int best = -1;
    for (int s = 0; s < static_cast<int>(graph_.stages().size()); ++s) {
      const int pass = NextOf(s, PassKind::kForward, true);
      if (pass < 0 || simulation_.ReadyAt(pass) == kNever) continue;
      if (best < 0 || rule_.key[pass] < rule_.key[best]) best = pass;
    }
    return best;
  }

  void Take(int pass) {
    simulation_.Run(pass);
    const auto& [s, kind, micro_batch] = graph_.pass(pass);
    const PassGraph::Stage& stage = graph_.stages()[s];
    UnitState& unit = units_[stage.unit];
    orders_.of_unit[stage.unit].push_back(pass);
    ++run_[s][static_cast<int>(kind)];
    if (Joined(pass)) ++joined_run_[s];
    const MemoryChange change = MemoryChangeOf(stage, kind, Joined(pass), simulation_.direction());
    unit.kept += change.begin + change.end;
    if (rule_.in_buffers) buffers_[stage.unit].Run(stage, kind, Joined(pass), simulation_.direction());
    if (kind == PassKind::kForward) ++unit.in_flight;
    if (kind == PassKind::kWeightGradient || Joined(pass)) --unit.in_flight;
    --unit.left;
    if (!rule_.phase.empty()) --unit.left_of[unit.phase];
    SkipPhases(unit);
    // What others wait for is of the stages beside this one.
    FindBest(stage.unit);
    for (const int beside : {stage.first() ? s : s - 1, stage.last() ? s : s + 1}) {
      if (graph_.stages()[beside].unit != stage.unit) FindBest(graph_.stages()[beside].unit);
    }
  }

  const PassGraph& graph_;
  const ListRule& rule_;
  const bool onwards_;
  PassSimulation& simulation_;
  PassOrders& orders_;
  std::vector<UnitState> units_;
  // Of each unit, which it may run now, the soonest and most urgent one; -1, and never: none.
  std::vector<int> best_pass_;
  std::vector<double> best_begin_;
  std::vector<KeptBuffers> buffers_;     // of each unit; none: they are not counted
  std::vector<double> room_;             // that forwards leave, of each unit; empty: none
  const double tie_seconds_;             // sums of the same times in another order differ by less
  std::vector<std::vector<int>> apart_;  // of each stage, micro-batches whose gradients are two passes
  std::vector<std::array<int, kPassKinds>> run_;  // of each stage, by kind
  std::vector<int> joined_run_;                   // of each stage, of its inputs' gradients
};

}  // namespace

bool ScheduleByList(const PassGraph& graph, const ListRule& rule, const std::vector<double>& free_from,
                    PassSimulation& simulation, PassOrders& orders) {
  return ListScheduler(graph, rule, simulation, orders).Run(free_from);
}

}  // namespace medley
