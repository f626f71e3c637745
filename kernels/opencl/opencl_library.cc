#include "kernels/opencl/opencl_library.h"

#include <dlfcn.h>

#include "absl/strings/str_cat.h"

namespace medley {
namespace {

absl::StatusOr<void*> Open(const char* name) {
  void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    return absl::UnavailableError(absl::StrCat("no ", name, " on this machine: ", dlerror()));
  return library;
}

// Sets `function` to the one of this name, or returns it as missing.
template <typename Function>
absl::Status Find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function != nullptr) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("the library is too old: it has no ", name));
}

absl::StatusOr<const OpenClLibrary*> OpenOpenCl() {
  const absl::StatusOr<void*> library = Open("libOpenCL.so.1");
  if (!library.ok()) return library.status();
  auto* functions = new OpenClLibrary;
#define MEDLEY_FIND_FUNCTION(name) \
  if (absl::Status found = Find(*library, #name, functions->name); !found.ok()) return found;
  MEDLEY_EACH_OPENCL_FUNCTION(MEDLEY_FIND_FUNCTION)
  return functions;
}

absl::StatusOr<const ClblastLibrary*> OpenClblast() {
  const absl::StatusOr<void*> library = Open("libclblast.so.1");
  if (!library.ok()) return library.status();
  auto* functions = new ClblastLibrary;
  MEDLEY_FIND_FUNCTION(CLBlastSgemm)
#undef MEDLEY_FIND_FUNCTION
  return functions;
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
  static const absl::StatusOr<const OpenClLibrary*>& library =
      *new absl::StatusOr<const OpenClLibrary*>(OpenOpenCl());
  return library;
}

absl::StatusOr<const ClblastLibrary*> LoadClblast() {
  static const absl::StatusOr<const ClblastLibrary*>& library =
      *new absl::StatusOr<const ClblastLibrary*>(OpenClblast());
  return library;
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
