#pragma once
#include <string>
#include <vector>

#include "runtime/device/device.h"

namespace medley {

// The processor's cores as a device: matmuls by oneDNN, everything else by own vector loops, threads by
// OpenMP.
//
// `variant` is one of "sse41", "avx2", "avx512" (f32 only), "avx512bf16", "amx" (f32 and bf16). Opening binds
// all threads of the process to `cores`, one computing thread a core, and limits the instruction set, both for good. A
// second device in the process must have the same variant and cores; besides the contract, open then returns
//   FailedPrecondition  this process is already another CPU device.
// Ops may be submitted from any one thread at a time. The same device gives the same bits from run to run.
// A precision that is not in Device::computes computes in f32.
Backend CpuBackend();

}  // namespace medley
