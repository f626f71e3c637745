#include "kernels/cuda/simulated_driver.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

namespace medley::simulated {
namespace {

// A task with neither work nor an event to wait for marks a place in its stream.
struct Task {
  std::function<void()> work;
  size_t awaited_stream = 0;
  uint64_t awaited_tasks = 0;           // of that stream, done
  std::function<bool()> can = nullptr;  // whether it can go on; null: it can
};
struct Stream {
  std::deque<Task> tasks;
  uint64_t submitted = 0, done = 0;
  std::vector<uint64_t> done_at;  // of each task done, how many of all streams were
};
// Where an event was recorded last.
struct Event {
  size_t stream = 0;
  uint64_t tasks = 0;
};

using Lock = std::lock_guard<std::recursive_mutex>;

// The mutex of everything below. It is recursive: what a call does may be a call.
std::recursive_mutex mutex;

struct Gpu {
  Turns turns = Turns::kAtRandom;
  std::mt19937_64 random;
  std::vector<Stream> streams;
  std::vector<std::unique_ptr<Event>> events;
  CUresult failure = CUDA_SUCCESS;
  int live_allocations = 0;
  uint64_t tasks_done = 0;
  int host_waits = 0;
};
Gpu gpu;

size_t IndexOf(CUstream stream) { return reinterpret_cast<uintptr_t>(stream) - 1; }
Event& Get(CUevent event) { return *reinterpret_cast<Event*>(event); }
bool IsReached(const Event& event) {
  return event.tasks == 0 || gpu.streams[event.stream].done >= event.tasks;
}

CUresult Submit(CUstream stream, Task task) {
  const Lock lock(mutex);
  if (gpu.failure != CUDA_SUCCESS) return gpu.failure;
  Stream& to = gpu.streams[IndexOf(stream)];
  to.tasks.push_back(std::move(task));
  ++to.submitted;
  return CUDA_SUCCESS;
}

bool IsHeld(const Stream& stream) {
  const Task& task = stream.tasks.front();
  return task.awaited_tasks != 0 && gpu.streams[task.awaited_stream].done < task.awaited_tasks;
}

bool CanGoOn(const Stream& stream) {
  if (stream.tasks.empty() || IsHeld(stream)) return false;
  const Task& task = stream.tasks.front();
  return task.can == nullptr || task.can();
}

void RunFirstOf(Stream& stream) {
  const Task task = std::move(stream.tasks.front());
  stream.tasks.pop_front();
  if (task.work) task.work();
  ++stream.done;
  stream.done_at.push_back(++gpu.tasks_done);
}

// Runs one task that has to be done before `stream` has done all; false if none can be.
bool StepTowards(size_t stream) {
  while (!gpu.streams[stream].tasks.empty() && IsHeld(gpu.streams[stream]))
    stream = gpu.streams[stream].tasks.front().awaited_stream;
  if (!CanGoOn(gpu.streams[stream])) return false;
  RunFirstOf(gpu.streams[stream]);
  return true;
}

// Whether it has a task that waits for other members of an exchange, as they may for it.
bool Exchanges(const Stream& stream) {
  return std::any_of(stream.tasks.begin(), stream.tasks.end(),
                     [](const Task& task) { return task.can != nullptr; });
}

// Runs one task for who waits for `awaited`: of a stream that can go on, drawn at random, or none but what it takes, that
// of other members of an exchange among it. False if none can be run.
bool Step(size_t awaited) {
  if (gpu.turns == Turns::kAsAwaited) {
    if (StepTowards(awaited)) return true;
    for (size_t stream = 0; stream < gpu.streams.size(); ++stream) {
      if (Exchanges(gpu.streams[stream]) && StepTowards(stream)) return true;
    }
    return false;
  }
  std::vector<Stream*> ready;
  for (Stream& stream : gpu.streams) {
    if (CanGoOn(stream)) ready.push_back(&stream);
  }
  if (ready.empty()) return false;
  RunFirstOf(*ready[gpu.random() % ready.size()]);
  return true;
}

// Whether a stream waits for what only another thread can bring.
bool AwaitsOthers() {
  return std::any_of(gpu.streams.begin(), gpu.streams.end(), [](const Stream& stream) {
    return !stream.tasks.empty() && stream.tasks.front().can != nullptr;
  });
}

template <typename Condition>
CUresult RunUntil(size_t awaited, Condition condition) {
  std::unique_lock<std::recursive_mutex> lock(mutex);
  if (gpu.failure != CUDA_SUCCESS) return gpu.failure;
  ++gpu.host_waits;
  while (!condition()) {
    if (Step(awaited)) continue;
    if (!AwaitsOthers()) return CUDA_ERROR_LAUNCH_TIMEOUT;  // a deadlock of streams
    lock.unlock();
    std::this_thread::yield();
    lock.lock();
  }
  return CUDA_SUCCESS;
}

CUresult Allocate(void** address, size_t size_bytes) {
  const Lock lock(mutex);
  if (gpu.failure != CUDA_SUCCESS) return gpu.failure;
  *address = std::malloc(size_bytes);
  return CUDA_SUCCESS;
}

void FillMemory(CudaDriver& driver) {
  driver.cuMemAlloc = [](CUdeviceptr* address, size_t size_bytes) -> CUresult {
    void* memory = nullptr;
    const CUresult result = Allocate(&memory, size_bytes);
    if (memory != nullptr) std::memset(memory, 0xa5, size_bytes);
    *address = reinterpret_cast<CUdeviceptr>(memory);
    const Lock lock(mutex);
    gpu.live_allocations += result == CUDA_SUCCESS;
    return result;
  };
  driver.cuMemFree = [](CUdeviceptr address) -> CUresult {
    std::free(reinterpret_cast<void*>(address));
    const Lock lock(mutex);
    --gpu.live_allocations;
    return CUDA_SUCCESS;
  };
  driver.cuMemAllocHost = [](void** address, size_t size_bytes) -> CUresult {
    return Allocate(address, size_bytes);
  };
  driver.cuMemFreeHost = [](void* address) -> CUresult {
    std::free(address);
    return CUDA_SUCCESS;
  };
  driver.cuMemsetD8Async = [](CUdeviceptr to, unsigned char value, size_t size_bytes,
                              CUstream stream) -> CUresult {
    return Submit(stream, {[=] { std::memset(reinterpret_cast<void*>(to), value, size_bytes); }});
  };
  driver.cuMemcpyHtoDAsync = [](CUdeviceptr to, const void* from, size_t size_bytes,
                                CUstream stream) -> CUresult {
    return Submit(stream, {[=] { std::memcpy(reinterpret_cast<void*>(to), from, size_bytes); }});
  };
  driver.cuMemcpyDtoHAsync = [](void* to, CUdeviceptr from, size_t size_bytes, CUstream stream) -> CUresult {
    return Submit(stream, {[=] { std::memcpy(to, reinterpret_cast<const void*>(from), size_bytes); }});
  };
}

void FillStreams(CudaDriver& driver) {
  driver.cuStreamCreate = [](CUstream* stream, unsigned) -> CUresult {
    const Lock lock(mutex);
    gpu.streams.emplace_back();
    *stream = reinterpret_cast<CUstream>(gpu.streams.size());
    return CUDA_SUCCESS;
  };
  driver.cuStreamDestroy = [](CUstream) -> CUresult { return CUDA_SUCCESS; };
  driver.cuStreamSynchronize = [](CUstream stream) -> CUresult {
    return RunUntil(IndexOf(stream), [=] { return gpu.streams[IndexOf(stream)].tasks.empty(); });
  };
  driver.cuStreamWaitEvent = [](CUstream stream, CUevent event, unsigned) -> CUresult {
    const Lock lock(mutex);
    return Submit(stream, {nullptr, Get(event).stream, Get(event).tasks});
  };
  driver.cuEventCreate = [](CUevent* event, unsigned) -> CUresult {
    const Lock lock(mutex);
    gpu.events.push_back(std::make_unique<Event>());
    *event = reinterpret_cast<CUevent>(gpu.events.back().get());
    return CUDA_SUCCESS;
  };
  driver.cuEventDestroy = [](CUevent) -> CUresult { return CUDA_SUCCESS; };
  driver.cuEventRecord = [](CUevent event, CUstream stream) -> CUresult {
    const Lock lock(mutex);
    const CUresult result = Submit(stream, {});
    Get(event) = {IndexOf(stream), gpu.streams[IndexOf(stream)].submitted};
    return result;
  };
  driver.cuEventElapsedTime = [](float* milliseconds, CUevent from, CUevent to) -> CUresult {
    const Lock lock(mutex);
    if (!IsReached(Get(from)) || !IsReached(Get(to))) return CUDA_ERROR_NOT_READY;
    const auto at = [](const Event& event) -> double {
      return event.tasks == 0 ? 0.0 : static_cast<double>(gpu.streams[event.stream].done_at[event.tasks - 1]);
    };
    *milliseconds = static_cast<float>(at(Get(to)) - at(Get(from)));
    return CUDA_SUCCESS;
  };
  driver.cuEventQuery = [](CUevent event) -> CUresult {
    const Lock lock(mutex);
    for (uint64_t steps = gpu.random() % 4; steps > 0; --steps) Step(Get(event).stream);
    return IsReached(Get(event)) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
  };
  driver.cuEventSynchronize = [](CUevent event) -> CUresult {
    return RunUntil(Get(event).stream, [=] { return IsReached(Get(event)); });
  };
}

void FillDevice(CudaDriver& driver) {
  driver.cuGetErrorName = [](CUresult, const char** name) -> CUresult {
    *name = "CUDA_ERROR_SIMULATED";
    return CUDA_SUCCESS;
  };
  driver.cuGetErrorString = [](CUresult, const char** words) -> CUresult {
    *words = "it was asked to fail";
    return CUDA_SUCCESS;
  };
  driver.cuDeviceGetCount = [](int* count) -> CUresult {
    *count = kGpus;
    return CUDA_SUCCESS;
  };
  driver.cuDeviceGet = [](CUdevice* device, int ordinal) -> CUresult {
    *device = ordinal;
    return CUDA_SUCCESS;
  };
  driver.cuDeviceGetUuid = [](CUuuid* uuid, CUdevice device) -> CUresult {
    std::memset(uuid->bytes, 0, sizeof(uuid->bytes));
    uuid->bytes[0] = static_cast<char>(device + 1);
    return CUDA_SUCCESS;
  };
  driver.cuDeviceGetName = [](char* name, int, CUdevice) -> CUresult {
    std::strcpy(name, "Simulated");
    return CUDA_SUCCESS;
  };
  driver.cuDeviceGetAttribute = [](int* value, CUdevice_attribute, CUdevice) -> CUresult {
    *value = 9;
    return CUDA_SUCCESS;
  };
  driver.cuDeviceTotalMem = [](size_t* size_bytes, CUdevice) -> CUresult {
    *size_bytes = size_t{1} << 30;
    return CUDA_SUCCESS;
  };
  driver.cuDevicePrimaryCtxRetain = [](CUcontext*, CUdevice) -> CUresult { return CUDA_SUCCESS; };
  driver.cuDevicePrimaryCtxRelease = [](CUdevice) -> CUresult { return CUDA_SUCCESS; };
  driver.cuCtxSetCurrent = [](CUcontext) -> CUresult { return CUDA_SUCCESS; };
}

}  // namespace

const CudaDriver& Start(uint64_t seed, Turns turns) {
  const Lock lock(mutex);
  gpu = Gpu{.turns = turns};
  gpu.random.seed(seed);
  static CudaDriver driver;
  FillMemory(driver);
  FillStreams(driver);
  FillDevice(driver);
  return driver;
}

void Launch(CUstream stream, std::function<void()> work) { Submit(stream, {std::move(work)}); }

void LaunchWhen(CUstream stream, std::function<bool()> can, std::function<void()> work) {
  Submit(stream, {.work = std::move(work), .can = std::move(can)});
}

void FailWith(CUresult result) {
  const Lock lock(mutex);
  gpu.failure = result;
}

int PendingTasks() {
  const Lock lock(mutex);
  size_t tasks = 0;
  for (const Stream& stream : gpu.streams) tasks += stream.tasks.size();
  return static_cast<int>(tasks);
}

int HostWaits() {
  const Lock lock(mutex);
  return gpu.host_waits;
}

int LiveAllocations() {
  const Lock lock(mutex);
  return gpu.live_allocations;
}

}  // namespace medley::simulated
