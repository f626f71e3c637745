// Plans, from the coordinator.
#include "runtime/wire/plan_codec.h"
#include "runtime/wire/validate.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/quiet_protobuf.h"

namespace medley {

std::vector<std::string> FuzzSeeds() {
  v1::Plan plan;
  plan.set_micro_batch_sequences(2);
  plan.set_schedule(v1::SCHEDULE_GPIPE);
  for (uint32_t unit = 0; unit < 3; ++unit) {
    v1::Unit& added = *plan.add_units();
    added.add_devices("node" + std::to_string(unit) + "/cpu0");
    v1::BlockRange& blocks = *added.add_blocks();
    blocks.set_first(unit * 3);
    blocks.set_end(unit * 3 + 3);
  }
  v1::Route& route = *plan.add_routes();
  for (uint32_t unit = 0; unit < 3; ++unit) route.add_units(unit);
  route.set_micro_batches(4);
  return {plan.SerializeAsString()};
}

}  // namespace medley

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace medley;
  v1::Plan message;
  if (!message.ParseFromArray(data, static_cast<int>(size))) return 0;
  const absl::Status valid = ValidateMessage(message);
  if (!valid.ok()) {
    DemandRefusal(valid);
    return 0;
  }
  const absl::StatusOr<Plan> plan = DecodePlan(message);
  if (!plan.ok()) {
    DemandRefusal(plan.status());
    return 0;
  }
  Accepted();
  const v1::Plan encoded = EncodePlan(*plan);
  const absl::StatusOr<Plan> again = DecodePlan(encoded);
  Demand(again.ok(), "an encoded plan can be decoded");
  Demand(EncodePlan(*again).SerializeAsString() == encoded.SerializeAsString(), "it is decoded as it was");
  return 0;
}
