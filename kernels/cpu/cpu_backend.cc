#include "kernels/cpu/cpu_backend.h"

#include <dnnl.h>
#include <omp.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/cpu_variant.h"
#include "kernels/host/core_binding.h"
#include "kernels/host/host_queue.h"
#include "kernels/host/processor_name.h"
#include "kernels/reference/reference_ops.h"
#include "runtime/base/mutex.h"
#include "runtime/base/op_scratch.h"
#include "runtime/base/status_macros.h"
#include "runtime/device/candidate_ops.h"
#include "runtime/device/converting_ops.h"

namespace medley {
namespace {

absl::StatusOr<CpuVariant> VariantOf(const DeviceDescription& description) {
  const std::optional<CpuVariant> variant = ParseCpuVariant(description.variant);
  if (!variant.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("variant \"", description.variant,
                     "\" is unknown; the cpu backend has sse41, avx2, avx512, avx512bf16 and amx"));
  }
  RETURN_IF_ERROR(CheckCores(description.cores));
  if (std::string lacks = CpuVariantObjection(*variant); !lacks.empty())
    return absl::UnimplementedError(absl::StrCat("cpu-", description.variant, ": ", lacks));
  return *variant;
}

absl::Status Objection(const DeviceDescription& description) { return VariantOf(description).status(); }

// What this process has become; nothing before the first device.
struct ProcessState {
  Mutex mutex;
  std::optional<CpuVariant> variant ABSL_GUARDED_BY(mutex);
  std::vector<int> cores ABSL_GUARDED_BY(mutex);
};

ProcessState& Process() {
  static ProcessState& state = *new ProcessState;
  return state;
}

dnnl_cpu_isa_t IsaLimit(CpuVariant variant) {
  switch (variant) {
    case CpuVariant::kSse41:
      return dnnl_cpu_isa_sse41;
    case CpuVariant::kAvx2:
      return dnnl_cpu_isa_avx2;
    case CpuVariant::kAvx512:
      return dnnl_cpu_isa_avx512_core;
    case CpuVariant::kAvx512Bf16:
      return dnnl_cpu_isa_avx512_core_bf16;
    case CpuVariant::kAmx:
      return dnnl_cpu_isa_avx512_core_amx;
  }
  return dnnl_cpu_isa_sse41;
}

// Makes this process a device of `variant` on `cores`, or finds that it is one already.
absl::Status Become(CpuVariant variant, const std::vector<int>& cores) {
  ProcessState& process = Process();
  MutexLock lock(process.mutex);
  if (process.variant.has_value()) {
    if (process.variant == variant && process.cores == cores) return BindProcess(cores);
    return absl::FailedPreconditionError(
        absl::StrCat("this process is already cpu-", NameOf(*process.variant), " on cores ",
                     absl::StrJoin(process.cores, ","), "; one CPU device a process"));
  }
  if (variant == CpuVariant::kAmx) {
    if (std::string refusal = RequestTiles(); !refusal.empty()) return absl::UnavailableError(refusal);
  }
  RETURN_IF_ERROR(BindProcess(cores));
  if (dnnl_set_max_cpu_isa(IsaLimit(variant)) != dnnl_success) {
    return absl::FailedPreconditionError(
        "oneDNN was used before the device was opened; it no longer takes a limit");
  }
  // Chosen by OpenMP from the machine's load otherwise, which would change the order of sums.
  omp_set_dynamic(0);
  process.variant = variant;
  process.cores = cores;
  return absl::OkStatus();
}

// "oneDNN 2.6.3 up to avx512"
std::string OneDnnVersion(CpuVariant variant) {
  const dnnl_version_t& version = *dnnl_version();
  return absl::StrCat("oneDNN ", version.major, ".", version.minor, ".", version.patch, " up to ",
                      NameOf(variant));
}

absl::StatusOr<Device> Open(const DeviceDescription& description) {
  ASSIGN_OR_RETURN(const CpuVariant variant, VariantOf(description));
  RETURN_IF_ERROR(Become(variant, description.cores));
  const int threads = static_cast<int>(description.cores.size());
  auto queue = std::make_unique<HostQueue>(
      absl::StrCat("cpu-", description.variant, " (", threads, threads == 1 ? " core)" : " cores)"),
      description.memory_limit);
  Device device;
  device.provenance = {.hardware = ProcessorName(), .driver = "", .libraries = {OneDnnVersion(variant)}};
  device.computes.bf16 = MultipliesBf16(variant);
  auto ops = std::make_unique<CandidateOps>();
  ops->Append("oneDNN and vector loops",
              std::make_unique<CpuOps>(*queue, VectorKernelsFor(variant), description.cores,
                                       device.computes.bf16 ? Bf16Matmul::kNative : Bf16Matmul::kAsF32));
  ops->Append("reference", std::make_unique<ReferenceOps>(*queue));
  device.candidates = ops.get();
  device.ops =
      std::make_unique<ConvertingOps>(*queue, std::move(ops), std::min(MiB(threads), kConversionPart));
  device.queue = std::move(queue);
  return device;
}

}  // namespace

Backend CpuBackend() { return {.name = "cpu", .open = Open, .objection = Objection}; }

}  // namespace medley
