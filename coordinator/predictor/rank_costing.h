#pragma once
#include <cstdint>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "coordinator/predictor/cost_model.h"
#include "coordinator/predictor/pass_costs.h"
#include "runtime/ir/plan/plan.h"
#include "runtime/ir/program/program.h"

namespace medley {

// What a rank computes in the instructions of its step, each by itself.
struct RankCost {
  int device = -1;
  int member = 0;                               // its place in its unit
  absl::InlinedVector<ChunkCost, 1> visits;     // parallel to the program's
  double norm_seconds = 0, update_seconds = 0;  // of what lives on the device
  double layer_norm_seconds = 0, layer_update_seconds = 0,
         layer_zero_seconds = 0;  // of a layer that does not

  // Of kAdvanceParameters.
  double AdvanceSeconds() const;
};

// Tells what ranks cost by what was measured of their devices: passes by block and size of micro-batch, norms and updates by how many
// parameters a rank answers for. Of what several hold all update everything and the first one answers for the norm, or where the
// optimizer is sharded each does both of its own; layers that live on the host are counted by themselves, for each of them has a
// norm and an update of its own.
//
// Keeps a reference to `problem`, which must outlive it.
class RankCosting {
 public:
  explicit RankCosting(const PlanningProblem& problem);

  // Of the rank of a program of `plan`, on this device. InvalidArgument: the device was not measured so ("units[3]...",
  // "routes[3].micro_batch_sequences: ...").
  absl::StatusOr<RankCost> Of(const Plan& plan, const StepProgram& program, int device) const;

 private:
  int64_t ParametersHeld(const Unit& unit, const ModelConfig& local) const;

  const PlanningProblem& problem_;
  std::vector<int64_t> parameters_before_;  // of blocks, without the tied embedding
};

}  // namespace medley
