#pragma once
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "runtime/device/rank_group.h"
#include "runtime/engine/exec/window_source.h"
#include "runtime/engine/shard/model_shard.h"
#include "runtime/ir/program/program.h"

namespace medley {

// What an instruction of the compute stream is on a shard: a pass with its buffers and, where it is of the embedding or the
// head, its tokens; what the ranks of the unit have received becomes what all of them have; and what becomes of gradients until
// the update, of which others decide.
class DevicePasses {
 public:
  // Of programs that visit the unit so. All outlive it.
  DevicePasses(const Visits& visits, const TrainingShape& shape, ModelShard& shard, WindowSource& windows);

  // The ranks that share the unit, before the first pass; outlives its passes.
  void SetGroup(RankGroup* group);

  // Submits it. `data_step`: of the step whose windows the passes are of, from 0. Internal: it is none of these.
  absl::Status Submit(const Instruction& instruction, Purpose purpose, int64_t data_step);

 private:
  absl::Status Gather(const Instruction& instruction);
  absl::Status Forward(const Instruction& pass, Purpose purpose, int64_t data_step);
  absl::Status LoadTokens(const Instruction& pass, Purpose purpose, int64_t data_step);
  ModelShard::PassBuffers BuffersOf(const Instruction& pass) const;

  const Visits& visits_;
  const TrainingShape& shape_;
  ModelShard& shard_;
  WindowSource& windows_;
  RankGroup* group_ = nullptr;  // null: the unit has one rank
  std::vector<SegmentId> segments_on_device_;
};

}  // namespace medley
