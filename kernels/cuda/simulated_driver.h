#pragma once
#include <cstdint>
#include <functional>

#include "kernels/cuda/cuda_driver.h"

// A driver in the place of NVIDIA's, for tests: GPUs whose memory is the host's, and whose streams run only
// when somebody waits. Any thread may call it, one at a time is served.
namespace medley::simulated {

// They differ in nothing but their number.
inline constexpr int kGpus = 16;

// Which streams run when somebody waits.
enum class Turns {
  kAtRandom,  // any, drawn from a seed: whatever a program leaves unordered comes in a bad order for some seed
  kAsAwaited,  // none further than it takes: what nobody waits for comes last
};

// Forgets everything; streams will take such turns, of this seed. Of this process: one test at a time.
const CudaDriver& Start(uint64_t seed, Turns turns = Turns::kAtRandom);

// Does `work` on `stream` in its turn, as a kernel would.
void Launch(CUstream stream, std::function<void()> work);

// The same, but its turn comes only once it `can`, which is asked by whoever runs streams: until then those who wait
// for it wait for what other threads submit.
void LaunchWhen(CUstream stream, std::function<bool()> can, std::function<void()> work);

// Every later call that submits, allocates or waits fails with `result`; CUDA_SUCCESS ends that.
void FailWith(CUresult result);

// Tasks of all streams that are not done.
int PendingTasks();

// How often the host has waited for a stream or an event since the start, reached or not. A task takes a
// millisecond.
int HostWaits();

// Blocks of device memory that are not freed.
int LiveAllocations();

}  // namespace medley::simulated
