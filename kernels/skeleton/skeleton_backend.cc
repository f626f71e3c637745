#include "kernels/skeleton/skeleton_backend.h"

#include <memory>

#include "kernels/fallback/reference_fallback_ops.h"
#include "kernels/skeleton/skeleton_ops.h"
#include "kernels/skeleton/skeleton_queue.h"
#include "runtime/base/status_macros.h"
#include "runtime/device/candidate_ops.h"
#include "runtime/device/converting_ops.h"

namespace medley {
namespace {

absl::Status Objection(const DeviceDescription& description) {
  if (description.variant.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError("variant \"" + description.variant +
                                    "\" is unknown; the skeleton backend has none, leave it empty");
}

absl::StatusOr<Device> Open(const DeviceDescription& description) {
  RETURN_IF_ERROR(Objection(description));
  auto queue = std::make_unique<SkeletonQueue>(description.memory_limit);
  auto ops = std::make_unique<CandidateOps>();
  ops->Append("skeleton", std::make_unique<SkeletonOps>(*queue));
  ops->Append("reference on the host", std::make_unique<ReferenceFallbackOps>(*queue));
  Device device;
  device.computes = {.bf16 = true, .f16 = true};  // the reference does
  device.candidates = ops.get();
  device.ops = std::make_unique<ConvertingOps>(*queue, std::move(ops));
  device.queue = std::move(queue);
  return device;
}

}  // namespace

Backend SkeletonBackend() { return {.name = "skeleton", .open = Open, .objection = Objection}; }

}  // namespace medley
