#include "kernels/fallback/reference_fallback_ops.h"

#include <limits>

#include "kernels/arguments/op_arguments.h"
#include "kernels/fallback/host_copies.h"
#include "runtime/base/status_macros.h"

namespace medley {

ReferenceFallbackOps::ReferenceFallbackOps(DeviceQueue& queue)
    : queue_(queue),
      host_("reference on the host", {std::numeric_limits<int64_t>::max()}),
      reference_(host_) {}

template <typename Args>
absl::Status ReferenceFallbackOps::Submit(const Args& args) {
  RETURN_IF_ERROR(CheckArguments(args));
  Args on_host = args;
  HostCopies copies(queue_, host_);
  RETURN_IF_ERROR(copies.Take(SlicesOf(on_host)));
  RETURN_IF_ERROR(RunOp(reference_, on_host));
  return copies.Return();
}

#define MEDLEY_INSTANTIATE(name) \
  template absl::Status ReferenceFallbackOps::Submit<name##Args>(const name##Args& args);
MEDLEY_EACH_OP(MEDLEY_INSTANTIATE)
#undef MEDLEY_INSTANTIATE

}  // namespace medley
