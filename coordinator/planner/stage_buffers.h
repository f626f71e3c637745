#pragma once
#include <array>
#include <map>

#include "runtime/base/dtype.h"
#include "runtime/ir/model/recompute.h"
#include "runtime/ir/plan/plan.h"
#include "runtime/ir/program/program.h"

namespace medley {

// A stage of a route whose units are on no other one, by what the number of its buffers depends on.
struct BufferedStage {
  Schedule schedule = Schedule::kOneForwardOneBackward;
  bool first = false;  // of its route
  int from_end = 1;    // 1: the last of its route
  int micro_batches = 1;
  Dtype activations = Dtype::kF32;
  Dtype before = Dtype::kF32;  // of the stage before
  Recompute recompute = Recompute::kNone;
  int windows = 0;
};

// The buffers that the compiler gives a stage that has a layer, or where its layers live in host memory several.
// Their numbers depend on nothing but what BufferedStage says, so a small plan tells, and each is compiled once.
class StageBuffers {
 public:
  // `narrowest` is the widest there is; whoever knows the stage's neighbours says better.
  const BufferCounts& Of(const BufferedStage& stage);

 private:
  std::map<std::array<int, 8>, BufferCounts> known_;
};

}  // namespace medley
