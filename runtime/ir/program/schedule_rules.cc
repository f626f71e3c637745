#include "runtime/ir/program/schedule_rules.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace medley {
namespace {

// What others wait for comes first, what nobody does last.
int64_t PrecedenceOf(PassKind kind) {
  return kind == PassKind::kWeightGradient ? 2 : kind == PassKind::kForward ? 1 : 0;
}

class RuleMaker {
 public:
  RuleMaker(Schedule schedule, const PassGraph& graph) : schedule_(schedule), graph_(graph) {}

  ListRule Run() {
    for (int r = 0; r <= graph_.stages().back().route; ++r)
      units_of_route_.push_back(static_cast<int>(UnitsOf(r).size()));
    if (schedule_ == Schedule::kInterleaved1F1B && !GoesInRings())
      schedule_ = Schedule::kOneForwardOneBackward;
    const bool splits = schedule_ == Schedule::kZeroBubbleH1 || schedule_ == Schedule::kZeroBubbleV;
    if (!splits) {
      rule_.joined.assign(graph_.passes(), 0);
      for (int pass = 0; pass < graph_.passes(); ++pass)
        rule_.joined[pass] = graph_.pass(pass).kind == PassKind::kInputGradient ? 1 : 0;
    }
    rule_.key.resize(graph_.passes());
    for (int pass = 0; pass < graph_.passes(); ++pass) rule_.key[pass] = KeyOf(pass);
    switch (schedule_) {
      case Schedule::kOneForwardOneBackward:
      case Schedule::kZeroBubbleH1:
        LimitStages();
        break;
      case Schedule::kZeroBubbleV:
        LimitStages();
        for (ListRule::StageLimit& limit : rule_.stage_limit)
          limit.before_weight_gradient = limit.before_input_gradient;
        break;
      case Schedule::kGPipe:
        rule_.phase.assign(graph_.stages().size(), {0, 1, 1});
        break;
      case Schedule::kInterleavedGPipe:
        RangeAfterRange();
        break;
      case Schedule::kInterleaved1F1B:
        LimitWarmUp();
        break;
      case Schedule::kListed:
        break;
    }
    return std::move(rule_);
  }

 private:
  // Later stages before earlier ones; of an interleaved schedule, groups of micro-batches one after another,
  // which go through the stages in their order.
  double KeyOf(int pass) const {
    const PassGraph::Stage& stage = graph_.StageOf(pass);
    const auto& [s, kind, micro_batch] = graph_.pass(pass);
    const int64_t from_end = stage.stages - stage.stage;
    // Where few are in flight, forwards come first: the gradients that would be ready have room to wait.
    const bool forwards_first =
        schedule_ == Schedule::kZeroBubbleV || schedule_ == Schedule::kInterleaved1F1B;
    const int64_t precedence = forwards_first ? static_cast<int64_t>(kind) : PrecedenceOf(kind);
    if (schedule_ != Schedule::kInterleaved1F1B) return static_cast<double>((precedence << 32) + from_end);
    const int64_t group = micro_batch / units_of_route_[stage.route];
    const int64_t order = kind == PassKind::kForward ? stage.stage : from_end;
    return static_cast<double>((precedence << 48) + (group << 24) + order);
  }

  // The units of a route, each once, in the order in which it passes them first.
  std::vector<UnitId> UnitsOf(int route) const {
    std::vector<UnitId> units;
    for (const PassGraph::Stage& stage : graph_.stages()) {
      if (stage.route == route && std::find(units.begin(), units.end(), stage.unit) == units.end())
        units.push_back(stage.unit);
    }
    return units;
  }

  // Whether every route goes through its units in the same turn again and again.
  bool GoesInRings() const {
    std::vector<std::vector<UnitId>> units;
    for (size_t r = 0; r < units_of_route_.size(); ++r) units.push_back(UnitsOf(static_cast<int>(r)));
    return std::all_of(graph_.stages().begin(), graph_.stages().end(), [&](const PassGraph::Stage& stage) {
      return stage.unit == units[stage.route][stage.stage % units_of_route_[stage.route]];
    });
  }

  // As many micro-batches alive as 1F1B has in a pipeline of as many stages.
  void LimitStages() {
    for (const PassGraph::Stage& stage : graph_.stages())
      rule_.stage_limit.push_back({stage.stages - stage.stage, stage.stages});
  }

  // All forwards of a unit's first range, then of its second, and backwards likewise from the last.
  void RangeAfterRange() {
    std::vector<int> chunks(graph_.units(), 0);
    for (const PassGraph::Stage& stage : graph_.stages())
      chunks[stage.unit] = std::max(chunks[stage.unit], stage.chunk + 1);
    for (const PassGraph::Stage& stage : graph_.stages()) {
      const int back = 2 * chunks[stage.unit] - 1 - stage.chunk;
      rule_.phase.push_back({stage.chunk, back, back});
    }
  }

  // Narayanan et al. 2021, section 2.2, as Megatron-LM has it: of `units` in a ring that each has `ranges`,
  // the one at `place` runs 2 (units - place - 1) + (ranges - 1) units forwards ahead of its backwards.
  void LimitWarmUp() {
    rule_.unit_limit.assign(graph_.units(), 0);
    for (int r = 0; r <= graph_.stages().back().route; ++r) {
      const std::vector<UnitId> units = UnitsOf(r);
      for (int place = 0; place < static_cast<int>(units.size()); ++place) {
        int ranges = 0;
        for (const int s : graph_.StagesOf(units[place])) ranges += graph_.stages()[s].route == r ? 1 : 0;
        const int count = static_cast<int>(units.size());
        rule_.unit_limit[units[place]] += 2 * (count - place - 1) + (ranges - 1) * count + 1;
      }
    }
    rule_.when_full = ListRule::WhenFull::kTakeOneMore;
  }

  Schedule schedule_;
  const PassGraph& graph_;
  std::vector<int> units_of_route_;  // how many
  ListRule rule_;
};

}  // namespace

ListRule RuleOf(Schedule schedule, const PassGraph& graph) { return RuleMaker(schedule, graph).Run(); }

}  // namespace medley
