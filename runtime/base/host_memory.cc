#include "runtime/base/host_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>

namespace medley {
namespace {

constexpr int64_t kAlignmentBytes = 64;
constexpr int64_t kHugePageBytes = int64_t{2} << 20;

}  // namespace

void FreeHostMemory::operator()(std::byte* address) const { std::free(address); }

HostMemory AllocateHostMemory(int64_t size_bytes) {
  if (size_bytes > INT64_MAX - kHugePageBytes) return nullptr;  // rounding up would wrap
  const int64_t alignment = size_bytes >= 2 * kHugePageBytes ? kHugePageBytes : kAlignmentBytes;
  const int64_t rounded = (std::max<int64_t>(size_bytes, 1) + alignment - 1) / alignment * alignment;
  void* const address = std::aligned_alloc(alignment, rounded);
  if (address != nullptr && alignment == kHugePageBytes) madvise(address, rounded, MADV_HUGEPAGE);
  return HostMemory(static_cast<std::byte*>(address));
}

}  // namespace medley
