#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "runtime/ir/plan/unit_op.h"
#include "runtime/ir/program/timed_pipeline.h"

namespace medley {

enum class PassKind : uint8_t { kForward, kInputGradient, kWeightGradient };
constexpr int kPassKinds = 3;

// Time runs either way: what is scheduled backwards from the end of a step is as late as it can be.
enum class Direction : uint8_t { kOnwards, kBackwards };

// The passes of one step of a pipeline, numbered from 0, and what each waits for.
class PassGraph {
 public:
  // A stage of one of the routes; those of a route stand side by side.
  struct Stage {
    UnitId unit;
    int visit = 0, chunk = 0;  // of the unit
    int route = 0, stage = 0, stages = 0;
    int micro_batches = 0;
    int first_pass = 0;
    std::array<double, kPassKinds> seconds = {};
    double split_seconds = 0;  // TimedStage's
    double kept = 0, deferred = 0;

    bool first() const { return stage == 0; }
    bool last() const { return stage == stages - 1; }
  };
  struct Pass {
    int stage;  // index into stages()
    PassKind kind;
    int micro_batch;
  };
  // Passes that must have ended, and how long after that their message is there; -1: none.
  struct Waits {
    std::array<int, 2> passes = {-1, -1};
    std::array<double, 2> seconds = {0, 0};
  };

  explicit PassGraph(const TimedPipeline& pipeline);

  int units() const { return static_cast<int>(stages_of_.size()); }
  int passes() const { return static_cast<int>(passes_.size()); }
  const std::vector<Stage>& stages() const { return stages_; }
  // The stages of `unit`, by visit: indices into stages().
  const std::vector<int>& StagesOf(UnitId unit) const { return stages_of_[unit]; }

  int PassOf(int stage, PassKind kind, int micro_batch) const {
    return stages_[stage].first_pass + static_cast<int>(kind) * stages_[stage].micro_batches + micro_batch;
  }
  const Pass& pass(int pass) const { return passes_[pass]; }
  const Stage& StageOf(int pass) const { return stages_[passes_[pass].stage]; }
  const std::vector<double>& seconds() const { return seconds_; }  // of each pass
  const Waits& WaitsOf(int pass, Direction direction) const {
    return waits_[static_cast<int>(direction)][pass];
  }

 private:
  void FindWaits(int stage, int micro_batch, const std::vector<double>& message_seconds);

  std::vector<Stage> stages_;
  std::vector<std::vector<int>> stages_of_;
  std::vector<Pass> passes_;
  std::vector<double> seconds_;
  std::array<std::vector<Waits>, 2> waits_;  // by direction
};

// The passes of each unit, first to last.
struct PassOrders {
  std::vector<std::vector<int>> of_unit;
  // Of each pass, 1: an input's gradient that is a backward whole, so that the weights' is in no list. Empty:
  // none is.
  std::vector<char> joined;
};

// The same orders as ops, and the other way round. The ops must be passes of the pipeline, each of them once.
std::vector<UnitOrder> OpsOf(const PassGraph& graph, const PassOrders& orders);
PassOrders PassesOf(const PassGraph& graph, const std::vector<UnitOrder>& orders);

}  // namespace medley
