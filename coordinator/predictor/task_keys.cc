#include "coordinator/predictor/task_keys.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace medley {
namespace {

// More would take gigabytes.
constexpr int64_t kMostKeys = int64_t{1} << 29;

}  // namespace

absl::StatusOr<TaskKeys> TaskKeys::Of(const ModelConfig& model, const Plan& plan, int steps) {
  TaskKeys keys;
  int64_t micro_batches = 0;
  for (const Route& route : plan.routes) {
    micro_batches += route.micro_batches;
    keys.longest_route_ = std::max(keys.longest_route_, static_cast<int64_t>(route.units.size()));
  }
  for (const Unit& unit : plan.units)
    keys.largest_unit_ = std::max(keys.largest_unit_, static_cast<int64_t>(unit.devices.size()));
  const int64_t ahead = plan.post_validation ? 1 : 0;
  keys.segments_ = SegmentCount(model);
  keys.first_slice_ =
      2 * (steps + ahead) * micro_batches * keys.longest_route_ * keys.largest_unit_ * keys.largest_unit_;
  keys.first_scalars_ = keys.first_slice_ + steps * keys.segments_ * keys.largest_unit_;
  keys.count_ = keys.first_scalars_ + steps;
  if (keys.count_ <= kMostKeys) return keys;
  return absl::InvalidArgumentError(absl::StrCat(
      "routes: ", micro_batches, " micro-batches together, on routes of up to ", keys.longest_route_,
      " stages and units of up to ", keys.largest_unit_, " devices, are too many to be simulated: up to ",
      keys.count_, " messages and sums; must be ", kMostKeys, " at most"));
}

}  // namespace medley
