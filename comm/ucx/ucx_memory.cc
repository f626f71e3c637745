#include "comm/ucx/ucx_memory.h"

#include <cstdint>

#include "absl/strings/str_cat.h"

namespace medley {

ucs_memory_type_t UcsMemoryType(MemoryType memory) {
  switch (memory) {
    case MemoryType::kHost:
      return UCS_MEMORY_TYPE_HOST;
    case MemoryType::kCuda:
      return UCS_MEMORY_TYPE_CUDA;
    case MemoryType::kRocm:
      return UCS_MEMORY_TYPE_ROCM;
  }
  return UCS_MEMORY_TYPE_UNKNOWN;
}

const char* NameOf(MemoryType memory) {
  switch (memory) {
    case MemoryType::kHost:
      return "host";
    case MemoryType::kCuda:
      return "cuda";
    case MemoryType::kRocm:
      return "rocm";
  }
  return "unknown";
}

absl::StatusOr<std::shared_ptr<UcxRegion>> UcxRegion::Map(ucp_context_h context, absl::Span<std::byte> bytes,
                                                          MemoryType memory) {
  ucp_mem_map_params_t params = {};
  params.field_mask =
      UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE;
  params.address = bytes.data();
  params.length = bytes.size();
  params.memory_type = UcsMemoryType(memory);
  std::shared_ptr<UcxRegion> region(new UcxRegion);
  const ucs_status_t status = ucp_mem_map(context, &params, &region->handle_);
  if (status != UCS_OK) {
    return absl::ResourceExhaustedError(absl::StrCat("registering ", bytes.size(), " bytes of ",
                                                     NameOf(memory), " memory: ", ucs_status_string(status)));
  }
  region->context_ = context;
  region->bytes_ = bytes;
  return region;
}

UcxRegion::~UcxRegion() {
  if (context_ != nullptr) ucp_mem_unmap(context_, handle_);
}

void UcxRegions::Add(std::shared_ptr<UcxRegion> region) {
  const std::pair key(static_cast<const std::byte*>(region->bytes().data()), region.get());
  regions_.emplace(key, std::move(region));
}

void UcxRegions::Remove(const UcxRegion& region) { regions_.erase({region.bytes().data(), &region}); }

std::shared_ptr<UcxRegion> UcxRegions::Find(const std::byte* data, size_t bytes) const {
  auto found = regions_.upper_bound({data, reinterpret_cast<const UcxRegion*>(UINTPTR_MAX)});
  if (found == regions_.begin()) return nullptr;
  --found;
  const absl::Span<const std::byte> region = found->second->bytes();
  const size_t offset = static_cast<size_t>(data - region.data());
  return offset <= region.size() && bytes <= region.size() - offset ? found->second : nullptr;
}

}  // namespace medley
