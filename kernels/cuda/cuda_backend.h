#pragma once
#include "runtime/device/device.h"

namespace medley {

// NVIDIA GPUs from sm_80 on: matmuls by cuBLASLt, bf16 attention by cuDNN, all else by own kernels.
//
// `variant` is as in CudaVariant; `cores` is not looked at. The driver, cuBLASLt and cuDNN are opened at run
// time; without the driver or a GPU open() and objection() return Unavailable, in a build without a CUDA
// toolkit likewise. Without cuBLASLt or cuDNN the portable kernels take over. Several devices
// may be open in a process. Besides the contract, open() returns
//   NotFound           there is no GPU of that number;
//   Unimplemented      it is older than sm_80.
// Precision::kF32 is true f32 unless the variant allows tf32.
Backend CudaBackend();

}  // namespace medley
