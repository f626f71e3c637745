// How gradients are summed, from the coordinator.
#include "runtime/wire/reduction_codec.h"
#include "runtime/wire/validate.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/quiet_protobuf.h"

namespace medley {
namespace {

// Units and reductions alone: the rest of a task has a decoder, and a target, of its own.
v1::TrainTask TaskOf(const std::vector<ReductionChoice>& reductions) {
  v1::TrainTask task;
  for (int unit = 0; unit < 9; ++unit) {
    v1::Unit& added = *task.mutable_plan()->add_units();
    added.add_devices(std::string("d"));
    added.add_blocks()->set_end(1);
  }
  for (const ReductionChoice& reduction : reductions) *task.add_reductions() = EncodeReduction(reduction);
  return task;
}

}  // namespace

std::vector<std::string> FuzzSeeds() {
  const ReductionChoice hierarchy = {
      .holders = {1, 3, 4, 6, 8},
      .elements = 1000,
      .choice = {
          .algorithm = CollectiveAlgorithm::kHierarchical,
          .shape = {.order = {4, 0, 2, 1, 3}, .levels = {{2, 2, 1}, {1, 2}}, .shares = {1, 2, 0, 1, 1}},
          .predicted_seconds = 0.25}};
  ReductionChoice ring = {.holders = {0, 2}, .elements = 77};
  ring.choice.algorithm = CollectiveAlgorithm::kRing;
  return {TaskOf({hierarchy}).SerializeAsString(), TaskOf({ring, hierarchy}).SerializeAsString()};
}

}  // namespace medley

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace medley;
  v1::TrainTask task;
  if (!task.ParseFromArray(data, static_cast<int>(size))) return 0;
  for (const v1::Reduction& reduction : task.reductions()) {
    const absl::Status valid = ValidateMessage(reduction);
    if (!valid.ok()) {
      DemandRefusal(valid);
      return 0;
    }
  }
  const absl::StatusOr<std::vector<ReductionChoice>> decoded = DecodeReductions(task);
  if (!decoded.ok()) {
    DemandRefusal(decoded.status());
    return 0;
  }
  Accepted();
  v1::TrainTask again = task;
  again.clear_reductions();
  for (const ReductionChoice& reduction : *decoded) *again.add_reductions() = EncodeReduction(reduction);
  const absl::StatusOr<std::vector<ReductionChoice>> redecoded = DecodeReductions(again);
  Demand(redecoded.ok(), "encoded reductions can be decoded");
  // By bytes: a prediction may be no number.
  v1::TrainTask third = task;
  third.clear_reductions();
  for (const ReductionChoice& reduction : *redecoded) *third.add_reductions() = EncodeReduction(reduction);
  Demand(third.SerializeAsString() == again.SerializeAsString(), "they are decoded as they were");
  return 0;
}
