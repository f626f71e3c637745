#include "runtime/codec/plan_codec.h"

#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

absl::StatusOr<Unit> DecodeUnit(const v1::Unit& unit, const std::string& path) {
  if (unit.devices_size() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ".devices: has ", unit.devices_size(), " elements; this version runs exactly 1"));
  }
  if (unit.blocks_size() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ".blocks: has ", unit.blocks_size(), " elements; this version runs exactly 1"));
  }
  const v1::BlockRange& blocks = unit.blocks(0);
  if (blocks.first() >= blocks.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ".blocks[0].end: ", blocks.end(), " is not beyond first, ", blocks.first()));
  }
  return Unit{unit.devices(0), {static_cast<int>(blocks.first()), static_cast<int>(blocks.end())}};
}

absl::StatusOr<Route> DecodeRoute(const v1::Route& route, int units, const std::string& path) {
  Route result;
  result.micro_batches = static_cast<int>(route.micro_batches());
  for (int i = 0; i < route.units_size(); ++i) {
    if (route.units(i) >= static_cast<uint32_t>(units)) {
      return absl::InvalidArgumentError(absl::StrCat(path, ".units[", i, "]: ", route.units(i),
                                                     " is not in [0, ", units - 1, "], the plan's units"));
    }
    result.units.push_back(static_cast<int>(route.units(i)));
  }
  return result;
}

}  // namespace

v1::Schedule EncodeSchedule(Schedule schedule) {
  return schedule == Schedule::kGPipe ? v1::SCHEDULE_GPIPE : v1::SCHEDULE_ONE_FORWARD_ONE_BACKWARD;
}

absl::StatusOr<Schedule> DecodeSchedule(v1::Schedule schedule) {
  switch (schedule) {
    case v1::SCHEDULE_UNSPECIFIED:
    case v1::SCHEDULE_ONE_FORWARD_ONE_BACKWARD: return Schedule::kOneForwardOneBackward;
    case v1::SCHEDULE_GPIPE: return Schedule::kGPipe;
    default: break;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("schedule: ", static_cast<int>(schedule), " is none of its values"));
}

v1::Plan EncodePlan(const Plan& plan) {
  v1::Plan result;
  result.set_micro_batch_sequences(plan.micro_batch_sequences);
  result.set_schedule(EncodeSchedule(plan.schedule));
  for (const Unit& unit : plan.units) {
    v1::Unit& encoded = *result.add_units();
    encoded.add_devices(unit.device);
    v1::BlockRange& blocks = *encoded.add_blocks();
    blocks.set_first(unit.blocks.first);
    blocks.set_end(unit.blocks.end);
  }
  for (const Route& route : plan.routes) {
    v1::Route& encoded = *result.add_routes();
    for (const int unit : route.units) encoded.add_units(unit);
    encoded.set_micro_batches(route.micro_batches);
  }
  return result;
}

absl::StatusOr<Plan> DecodePlan(const v1::Plan& plan) {
  Plan result;
  result.micro_batch_sequences = static_cast<int>(plan.micro_batch_sequences());
  ASSIGN_OR_RETURN(result.schedule, DecodeSchedule(plan.schedule()));
  for (int i = 0; i < plan.units_size(); ++i) {
    ASSIGN_OR_RETURN(Unit unit, DecodeUnit(plan.units(i), absl::StrCat("units[", i, "]")));
    result.units.push_back(std::move(unit));
  }
  for (int i = 0; i < plan.routes_size(); ++i) {
    ASSIGN_OR_RETURN(Route route,
                     DecodeRoute(plan.routes(i), plan.units_size(), absl::StrCat("routes[", i, "]")));
    result.routes.push_back(std::move(route));
  }
  return result;
}

}  // namespace medley
