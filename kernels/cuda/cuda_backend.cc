#include "kernels/cuda/cuda_backend.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/cublaslt_ops.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/cuda_launcher.h"
#include "kernels/cuda/cuda_queue.h"
#include "kernels/cuda/cuda_variant.h"
#include "runtime/device/converting_ops.h"
#ifdef MEDLEY_HAS_CUDNN
#include "kernels/cuda/cudnn_attention_ops.h"
#endif
#include "kernels/cuda/nccl_groups.h"
#include "kernels/cuda/nccl_library.h"
#include "kernels/fallback/reference_fallback_ops.h"
#include "kernels/portable/portable_ops.h"
#include "runtime/base/status_macros.h"
#include "runtime/device/candidate_ops.h"

namespace medley {
namespace {

// The candidates of one GPU with the launcher that they share.
class CudaOps final : public CandidateOps {
 public:
  CudaOps(CudaQueue& queue, std::unique_ptr<CudaLauncher> launcher, const CudaVariant& variant)
      : launcher_(std::move(launcher)) {
#ifdef MEDLEY_HAS_CUDNN
    if (variant.attention == CudaVariant::Attention::kCudnnFirst) {
      Append("cudnn", std::make_unique<CudnnAttentionOps>(queue, *this));
    }
#endif
    auto cublaslt = std::make_unique<CublasLtOps>(queue, *launcher_, *this,
                                                  variant.f32_matmul == CudaVariant::F32Matmul::kTf32
                                                      ? CublasLtOps::F32Matmul::kTf32
                                                      : CublasLtOps::F32Matmul::kExact);
    StridedMatmul* const strided = cublaslt.get();
    Append("cublaslt", std::move(cublaslt));
    Append("cuda",
           std::make_unique<PortableOps>(queue, *launcher_, *this, PortableOps::Options{.strided = strided}));
    Append("reference", std::make_unique<ReferenceFallbackOps>(queue));
  }

 private:
  const std::unique_ptr<CudaLauncher> launcher_;
};

// Tensor cores take f16 from Volta on, bf16 from Ampere on.
ComputedPrecisions ComputedBy(const CudaDevice::Properties& properties) {
  return {.bf16 = properties.compute_major >= 8, .f16 = properties.compute_major >= 7};
}

std::string DriverVersion() {
  int version = 0;
  const auto driver = CudaDriver::Get();
  if (!driver.ok() || (*driver)->cuDriverGetVersion(&version) != CUDA_SUCCESS) return "";
  return absl::StrCat("CUDA driver ", version / 1000, ".", version % 1000 / 10);
}

std::vector<std::string> LibraryVersions() {
  std::vector<std::string> versions;
  if (const auto library = CublasLtLibrary::Get(); library.ok()) {
    versions.push_back(absl::StrCat("cuBLASLt ", (*library)->cublasLtGetVersion()));
  }
#ifdef MEDLEY_HAS_CUDNN
  if (const auto library = CudnnLibrary::Get(); library.ok()) {
    versions.push_back(absl::StrCat("cuDNN ", (*library)->cudnnGetVersion()));
  }
#endif
  return versions;
}

absl::StatusOr<std::unique_ptr<GroupLibrary>> OpenGroups(CudaQueue& queue) {
  ASSIGN_OR_RETURN(const NcclLibrary* library, NcclLibrary::Get());
  return std::make_unique<NcclGroups>(queue, *library);
}

absl::StatusOr<Device> Open(const DeviceDescription& description) {
  ASSIGN_OR_RETURN(const CudaVariant variant, ParseCudaVariant(description.variant));
  ASSIGN_OR_RETURN(std::unique_ptr<CudaDevice> gpu, CudaDevice::Open(variant.ordinal));
  const std::string hardware = gpu->properties().name;
  const ComputedPrecisions computes = ComputedBy(gpu->properties());
  ASSIGN_OR_RETURN(std::unique_ptr<CudaQueue> queue,
                   CudaQueue::Create(std::move(gpu), description.memory_limit));
  queue->SetGroups(OpenGroups(*queue));
  ASSIGN_OR_RETURN(std::unique_ptr<CudaLauncher> launcher, CudaLauncher::Create(*queue));
  Device device;
  auto ops = std::make_unique<CudaOps>(*queue, std::move(launcher), variant);
  device.candidates = ops.get();
  device.ops = std::make_unique<ConvertingOps>(*queue, std::move(ops));
  device.queue = std::move(queue);
  device.computes = computes;
  device.provenance = {.hardware = hardware, .driver = DriverVersion(), .libraries = LibraryVersions()};
  return device;
}

absl::Status Objection(const DeviceDescription& description) {
  ASSIGN_OR_RETURN(const CudaVariant variant, ParseCudaVariant(description.variant));
  ASSIGN_OR_RETURN(const CudaDevice::Properties properties, CudaDevice::Look(variant.ordinal));
  return CudaDevice::Check(properties);
}

// A context and the libraries' own memory need the rest.
Bytes MemoryOffered(const CudaDevice::Properties& properties) { return {properties.memory.value / 10 * 9}; }

std::vector<DeviceDescription> FindDevices() {
  std::vector<DeviceDescription> found;
  for (int ordinal = 0; ordinal < CountCudaDevices(); ++ordinal) {
    const auto properties = CudaDevice::Look(ordinal);
    if (!properties.ok() || !CudaDevice::Check(*properties).ok()) continue;
    found.push_back({.name = absl::StrCat("cuda", ordinal),
                     .backend = "cuda",
                     .variant = absl::StrCat(ordinal),
                     .memory_limit = MemoryOffered(*properties)});
  }
  return found;
}

DeviceNature Nature(const DeviceDescription& description) {
  const auto variant = ParseCudaVariant(description.variant);
  if (!variant.ok()) return {};
  const auto properties = CudaDevice::Look(variant->ordinal);
  if (!properties.ok()) return {};
  const bool is_tf32 = variant->f32_matmul == CudaVariant::F32Matmul::kTf32;
  const bool is_without_cudnn = variant->attention == CudaVariant::Attention::kOwnKernels;
  return {.kind = absl::StrCat("cuda", is_tf32 ? ":tf32" : "", is_without_cudnn ? ":no-cudnn" : "", ", ",
                               properties->name),
          .computes = ComputedBy(*properties),
          .memory = MemoryOffered(*properties),
          .total_memory = properties->memory};
}

}  // namespace

Backend CudaBackend() {
  return {.name = "cuda", .open = Open, .objection = Objection, .find = FindDevices, .nature = Nature};
}

}  // namespace medley
