#include "kernels/opencl/opencl_program.h"

#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

std::string OptionsFor(const OpenClDevice& device) {
  return device.has_exact_f32 ? "-cl-std=CL1.2 -cl-fp32-correctly-rounded-divide-sqrt" : "-cl-std=CL1.2";
}

std::string BuildLog(const OpenClQueue& queue, cl_program program) {
  size_t size = 0;
  queue.opencl().clGetProgramBuildInfo(program, queue.device().id, CL_PROGRAM_BUILD_LOG, 0, nullptr, &size);
  std::string log(size, '\0');
  queue.opencl().clGetProgramBuildInfo(program, queue.device().id, CL_PROGRAM_BUILD_LOG, size, log.data(),
                                       nullptr);
  return log.substr(0, log.find('\0'));
}

// Releases `program` if it does not build.
absl::StatusOr<cl_program> Build(const OpenClQueue& queue, cl_program program) {
  const cl_device_id id = queue.device().id;
  const cl_int code =
      queue.opencl().clBuildProgram(program, 1, &id, OptionsFor(queue.device()).c_str(), nullptr, nullptr);
  if (code == CL_SUCCESS) return program;
  const std::string log = BuildLog(queue, program);
  queue.opencl().clReleaseProgram(program);
  return absl::InternalError(
      absl::StrCat(OpenClStatus(code, queue.name() + ": compiling the kernels").message(), "\n", log));
}

absl::StatusOr<cl_program> BuildFromBinary(const OpenClQueue& queue, const std::vector<uint8_t>& binary) {
  const cl_device_id id = queue.device().id;
  const size_t size = binary.size();
  const unsigned char* bytes = binary.data();
  cl_int of_binary = CL_SUCCESS, code = CL_SUCCESS;
  cl_program program =
      queue.opencl().clCreateProgramWithBinary(queue.context(), 1, &id, &size, &bytes, &of_binary, &code);
  if (code == CL_SUCCESS && of_binary == CL_SUCCESS) return Build(queue, program);
  if (code == CL_SUCCESS) queue.opencl().clReleaseProgram(program);
  return OpenClStatus(code == CL_SUCCESS ? of_binary : code, queue.name() + ": loading compiled kernels");
}

absl::StatusOr<cl_program> BuildFromSource(const OpenClQueue& queue, absl::string_view source) {
  const char* text = source.data();
  const size_t size = source.size();
  cl_int code = CL_SUCCESS;
  cl_program program = queue.opencl().clCreateProgramWithSource(queue.context(), 1, &text, &size, &code);
  RETURN_IF_ERROR(OpenClStatus(code, queue.name() + ": reading the kernels' source"));
  return Build(queue, program);
}

// Empty if the driver does not give it.
std::vector<uint8_t> BinaryOf(const OpenClQueue& queue, cl_program program) {
  size_t size = 0;
  if (queue.opencl().clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof(size), &size, nullptr) !=
      CL_SUCCESS) {
    return {};
  }
  std::vector<uint8_t> binary(size);
  unsigned char* bytes = binary.data();
  if (queue.opencl().clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof(bytes), &bytes, nullptr) !=
      CL_SUCCESS) {
    return {};
  }
  return binary;
}

}  // namespace

std::string OpenClProgramKey(const OpenClDevice& device, absl::string_view source) {
  const std::string whole_source(source);
  return absl::StrCat(device.platform_name, "\n", device.name, "\n", device.device_version, "\n",
                      device.driver_version, "\n", OptionsFor(device), "\n", whole_source);
}

absl::StatusOr<OpenClProgram> BuildOpenClProgram(const OpenClQueue& queue, absl::string_view source,
                                                 const ProgramCache& cache) {
  if (queue.device().driver_keeps_programs) {
    ASSIGN_OR_RETURN(const cl_program program, BuildFromSource(queue, source));
    return OpenClProgram{program, ProgramOrigin::kSource};
  }
  const std::string key = OpenClProgramKey(queue.device(), source);
  if (const auto binary = cache.Load(key); binary.has_value()) {
    absl::StatusOr<cl_program> program = BuildFromBinary(queue, *binary);
    if (program.ok()) return OpenClProgram{*program, ProgramOrigin::kCache};
  }
  ASSIGN_OR_RETURN(const cl_program program, BuildFromSource(queue, source));
  if (const std::vector<uint8_t> binary = BinaryOf(queue, program); !binary.empty()) cache.Store(key, binary);
  return OpenClProgram{program, ProgramOrigin::kSource};
}

}  // namespace medley
