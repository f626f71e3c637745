#pragma once
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/opencl/opencl_queue.h"
#include "kernels/opencl/program_cache.h"

namespace medley {

enum class ProgramOrigin : uint8_t { kCache, kSource };

struct OpenClProgram {
  cl_program program = nullptr;  // the caller's to release
  ProgramOrigin origin = ProgramOrigin::kSource;
};

// `source` compiled for the queue's device, from the cache if it holds a program of the same source, device
// and driver that the driver still takes; otherwise the cache is given the new one. A driver that keeps
// programs has no use for it. Internal: the driver's compiler refuses the source, with its log.
absl::StatusOr<OpenClProgram> BuildOpenClProgram(const OpenClQueue& queue, absl::string_view source,
                                                 const ProgramCache& cache);

// What the program is kept under: device, driver, options and source.
std::string OpenClProgramKey(const OpenClDevice& device, absl::string_view source);

}  // namespace medley
