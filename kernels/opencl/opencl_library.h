#pragma once
#include <CL/cl.h>
#include <clblast_c.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/host/dynamic_library.h"

// OpenCL and CLBlast, found at run time: a machine without them runs the same program.
namespace medley {

#define MEDLEY_EACH_OPENCL_FUNCTION(X) \
  X(clBuildProgram)                    \
  X(clCreateBuffer)                    \
  X(clCreateCommandQueue)              \
  X(clCreateContext)                   \
  X(clCreateKernel)                    \
  X(clCreateProgramWithBinary)         \
  X(clCreateProgramWithSource)         \
  X(clEnqueueFillBuffer)               \
  X(clEnqueueMapBuffer)                \
  X(clEnqueueMarkerWithWaitList)       \
  X(clEnqueueNDRangeKernel)            \
  X(clEnqueueReadBuffer)               \
  X(clEnqueueUnmapMemObject)           \
  X(clEnqueueWriteBuffer)              \
  X(clFinish)                          \
  X(clFlush)                           \
  X(clGetDeviceIDs)                    \
  X(clGetDeviceInfo)                   \
  X(clGetEventInfo)                    \
  X(clGetEventProfilingInfo)           \
  X(clGetPlatformIDs)                  \
  X(clGetPlatformInfo)                 \
  X(clGetProgramBuildInfo)             \
  X(clGetProgramInfo)                  \
  X(clReleaseCommandQueue)             \
  X(clReleaseContext)                  \
  X(clReleaseEvent)                    \
  X(clReleaseKernel)                   \
  X(clReleaseMemObject)                \
  X(clReleaseProgram)                  \
  X(clRetainEvent)                     \
  X(clSetKernelArg)                    \
  X(clWaitForEvents)

// Each function under its own name, as in opencl.clFinish(queue).
struct OpenClLibrary {
  MEDLEY_EACH_OPENCL_FUNCTION(MEDLEY_DYNAMIC_MEMBER)
};

struct ClblastLibrary {
  MEDLEY_DYNAMIC_MEMBER(CLBlastSgemm)
};

// The libraries of this process, opened at the first call and never closed. Any thread.
// Unavailable: not on this machine, with the loader's words.
absl::StatusOr<const OpenClLibrary*> LoadOpenCl();
absl::StatusOr<const ClblastLibrary*> LoadClblast();

// `code` as an error: "`doing`: CL_OUT_OF_RESOURCES (-5)". ResourceExhausted if it speaks of memory,
// otherwise Internal. OK for CL_SUCCESS.
absl::Status OpenClStatus(cl_int code, const std::string& doing);

}  // namespace medley
