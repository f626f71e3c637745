#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "coordinator/planner/search_tables.h"

namespace medley {

// Lower bounds of how long one route takes, from its list of device classes alone or with its split too. No
// simulation of a plan with such a route ends earlier: messages and processors count as if nothing else used
// them.
class RouteBounds {
 public:
  explicit RouteBounds(SearchTables& tables) : tables_(tables) {}

  // Number of a list of device classes, in the order of the stages.
  int ListOf(const std::vector<int>& classes);
  const std::vector<int>& ClassesOf(int list) const { return lists_[list].classes; }

  struct Work {
    int list = 0;
    int size = 0;
    Schedule schedule = Schedule::kOneForwardOneBackward;
    int micro_batches = 1;
    bool replicated = false;  // there are other routes, so every gradient is reduced
    // Units that hold the same parameters share the optimizer's state of them. Bounds are then of the least
    // that each could have, which fits together or not.
    bool shards_optimizer = false;
    // Layers of units that do not fit as they are may live in host memory. Bounds are then of the least that each
    // recomputes, with them there or not, and count no copies that overlap.
    bool homes_layers = false;
  };
  // Seconds of a step, without the reduction of the tied embedding and of the scalars, over all splits into
  // at least one block a stage that fit the memory. Infinite if none does. Does not fall as micro_batches
  // grows.
  double Bound(const Work& work);

  struct Split {
    std::vector<BlockId> ends;  // of each stage's blocks
    double bound_seconds = 0;
  };
  // The bound of one split; infinite if it does not fit, or a stage has no block.
  double BoundOfSplit(const Work& work, const std::vector<BlockId>& ends);
  // Bytes that the stages' devices have left where they recompute so; nothing is counted of the optimizer's
  // state of what other units hold, too. Only of tables that may recompute.
  std::vector<std::array<int64_t, kRecomputes>> RoomsOf(const Work& work, const std::vector<BlockId>& ends);
  // What each of its stages may do by itself, first with its layers on the device: where the optimizer's state is
  // shared, whatever it may recompute with which it may fit. Only of tables that may save something.
  std::vector<std::vector<UnitSaving>> SavingsOf(const Work& work, const std::vector<BlockId>& ends);
  // Whether each of its stages fits with nothing saved.
  bool FitsAsItIs(const Work& work, const std::vector<BlockId>& ends);
  // Whether memory kept any range of blocks from any stage so far.
  bool memory_binds() const { return memory_binds_; }
  // What its stages recompute: what takes the least time of what fits each, and of as few layers as do.
  std::vector<UnitSaving> LeastSavingsOf(const Work& work, const std::vector<BlockId>& ends);
  // The bound of one split whose stages save memory so, whether that fits or not.
  double BoundOfSplit(const Work& work, const std::vector<BlockId>& ends,
                      const std::vector<UnitSaving>& savings) const;
  // The splits that fit and whose own bound is below `below`, best first; at most `limit`, and then not all.
  std::vector<Split> Splits(const Work& work, double below, size_t limit);

  // Stages looked at so far, in all: what bounding cost.
  int64_t looked_at() const { return looked_at_; }

 private:
  struct List {
    std::vector<int> classes;
    int rest = -1;                // the list without its first stage
    std::vector<int> extensions;  // by class in front; -1: no number yet
  };
  // The seconds of the stages of a list, not the first ones of the route, that hold the blocks from some
  // block to the last.
  struct Rest {
    double passes_and_update;  // from the first arrival until the last gradient leaves, then the update
    double round_trip;         // of one micro-batch
  };
  struct StageSeconds {
    double passes_and_update;  // what this stage alone takes at least
    double passage;            // its passes of one micro-batch and the messages to the next stage and back
    double round_trip;
    double after_passes;  // reductions and norms, if it is the first stage
  };
  // `before`: what the stage before the list stores activations as.
  const std::vector<Rest>& RestOf(const Work& work, int list, Dtype before);
  StageSeconds Stage(const Work& work, int list, BlockRange blocks, const UnitSaving& saving,
                     double rest_round_trip, bool first) const;
  // What the first stage of `list` recomputes that takes the least time of what fits; none: it does not fit.
  std::optional<UnitSaving> LeastSaving(const Work& work, const SearchTables::StageNeeds& needs, int list,
                                        BlockRange blocks);
  // Calls visit(stage of the route, list whose first one it is, needs, place of its blocks in them) for each stage.
  template <typename Visit>
  void ForEachStage(const Work& work, const std::vector<BlockId>& ends, const Visit& visit);
  // Of the first stage of `list`; nothing is before the first one of a route.
  const SearchTables::StageNeeds& Needs(const Work& work, int list, std::optional<Dtype> before);
  SearchTables::OwnOptimizer OwnOptimizerOf(const Work& work, int list, bool first) const;
  Dtype StoredBy(int list) const { return tables_.Cost(lists_[list].classes.front()).activations; }
  void ExtendSplit(const Work& work, int list, std::optional<Dtype> before, BlockId first_block,
                   double passage, double bound, double after, double below, size_t limit,
                   std::vector<BlockId>& ends, std::vector<Split>& splits);

  SearchTables& tables_;
  mutable int64_t looked_at_ = 0;
  bool memory_binds_ = false;
  std::vector<List> lists_ = {{}};  // 0: the empty list
  std::unordered_map<int64_t, std::vector<Rest>> rests_;
  std::unordered_map<int64_t, double> bounds_;
};

}  // namespace medley
