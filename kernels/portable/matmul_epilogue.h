#pragma once
#include "absl/status/status.h"
#include "kernels/portable/launcher.h"

namespace medley {

// What is left of a matmul once c holds (or had added) the plain product: bias and epilogue, in one pass over
// c; nothing if there is neither. `args` were checked. Errors: of Launch.
absl::Status FinishMatmul(KernelLauncher& launcher, const MatmulArgs& args);

}  // namespace medley
