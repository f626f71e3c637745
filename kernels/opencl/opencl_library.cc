#include "kernels/opencl/opencl_library.h"

#include "absl/strings/str_cat.h"
#include "kernels/host/dynamic_library.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

absl::Status ResolveOpenCl(const DynamicLibrary& library, OpenClLibrary& table) {
  MEDLEY_EACH_OPENCL_FUNCTION(MEDLEY_RESOLVE_MEMBER)
  return absl::OkStatus();
}

absl::Status ResolveClblast(const DynamicLibrary& library, ClblastLibrary& table) {
  MEDLEY_RESOLVE_MEMBER(CLBlastSgemm)
  return absl::OkStatus();
}

std::string NameOf(cl_int code) {
  switch (code) {
#define MEDLEY_CODE_NAME(name) \
  case name:                   \
    return #name;
    MEDLEY_CODE_NAME(CL_DEVICE_NOT_FOUND)
    MEDLEY_CODE_NAME(CL_DEVICE_NOT_AVAILABLE)
    MEDLEY_CODE_NAME(CL_COMPILER_NOT_AVAILABLE)
    MEDLEY_CODE_NAME(CL_MEM_OBJECT_ALLOCATION_FAILURE)
    MEDLEY_CODE_NAME(CL_OUT_OF_RESOURCES)
    MEDLEY_CODE_NAME(CL_OUT_OF_HOST_MEMORY)
    MEDLEY_CODE_NAME(CL_BUILD_PROGRAM_FAILURE)
    MEDLEY_CODE_NAME(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST)
    MEDLEY_CODE_NAME(CL_INVALID_VALUE)
    MEDLEY_CODE_NAME(CL_INVALID_DEVICE)
    MEDLEY_CODE_NAME(CL_INVALID_BINARY)
    MEDLEY_CODE_NAME(CL_INVALID_MEM_OBJECT)
    MEDLEY_CODE_NAME(CL_INVALID_KERNEL_NAME)
    MEDLEY_CODE_NAME(CL_INVALID_ARG_INDEX)
    MEDLEY_CODE_NAME(CL_INVALID_ARG_SIZE)
    MEDLEY_CODE_NAME(CL_INVALID_KERNEL_ARGS)
    MEDLEY_CODE_NAME(CL_INVALID_WORK_GROUP_SIZE)
    MEDLEY_CODE_NAME(CL_INVALID_GLOBAL_WORK_SIZE)
    MEDLEY_CODE_NAME(CL_INVALID_BUFFER_SIZE)
    MEDLEY_CODE_NAME(CL_INVALID_COMMAND_QUEUE)
    MEDLEY_CODE_NAME(CL_INVALID_CONTEXT)
    MEDLEY_CODE_NAME(CL_PLATFORM_NOT_FOUND_KHR)
#undef MEDLEY_CODE_NAME
    default:
      return "OpenCL error";
  }
}

}  // namespace

absl::StatusOr<const OpenClLibrary*> LoadOpenCl() {
  return LoadedTable("OpenCL", {"libOpenCL.so.1"}, ResolveOpenCl);
}

absl::StatusOr<const ClblastLibrary*> LoadClblast() {
  return LoadedTable("CLBlast", {"libclblast.so.1"}, ResolveClblast);
}

absl::Status OpenClStatus(cl_int code, const std::string& doing) {
  if (code == CL_SUCCESS) return absl::OkStatus();
  const std::string message = absl::StrCat(doing, ": ", NameOf(code), " (", code, ")");
  switch (code) {
    case CL_MEM_OBJECT_ALLOCATION_FAILURE:
    case CL_OUT_OF_RESOURCES:
    case CL_OUT_OF_HOST_MEMORY:
    case CL_INVALID_BUFFER_SIZE:
      return absl::ResourceExhaustedError(message);
    default:
      return absl::InternalError(message);
  }
}

}  // namespace medley
