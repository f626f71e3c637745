#pragma once
#include <ucp/api/ucp.h>

#include <map>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "comm/transport/transport.h"

namespace medley {

ucs_memory_type_t UcsMemoryType(MemoryType memory);
const char* NameOf(MemoryType memory);  // "host", "cuda", "rocm"

// Memory that UCX has mapped, until the last holder lets go of it.
class UcxRegion {
 public:
  // ResourceExhausted: it cannot be mapped; UCX's reason. `context` must outlive the region.
  static absl::StatusOr<std::shared_ptr<UcxRegion>> Map(ucp_context_h context, absl::Span<std::byte> bytes,
                                                        MemoryType memory);
  ~UcxRegion();
  UcxRegion(const UcxRegion&) = delete;
  UcxRegion& operator=(const UcxRegion&) = delete;

  ucp_mem_h handle() const { return handle_; }
  absl::Span<std::byte> bytes() const { return bytes_; }

 private:
  UcxRegion() = default;
  ucp_context_h context_ = nullptr;
  ucp_mem_h handle_ = nullptr;
  absl::Span<std::byte> bytes_;
};

// The regions in use, found by address. Not thread-safe.
class UcxRegions {
 public:
  bool empty() const { return regions_.empty(); }
  void Add(std::shared_ptr<UcxRegion> region);
  void Remove(const UcxRegion& region);
  void Clear() { regions_.clear(); }
  // A region that all of [data, data + bytes) lies in, or null. Of overlapping regions it may miss one.
  std::shared_ptr<UcxRegion> Find(const std::byte* data, size_t bytes) const;

 private:
  std::map<std::pair<const std::byte*, const UcxRegion*>, std::shared_ptr<UcxRegion>> regions_;
};

}  // namespace medley
