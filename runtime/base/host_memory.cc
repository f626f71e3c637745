#include "runtime/base/host_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "runtime/base/progress.h"

namespace medley {
namespace {

constexpr int64_t kAlignmentBytes = 64;
constexpr int64_t kHugePageBytes = int64_t{2} << 20;
constexpr int64_t kZeroedASign = int64_t{16} << 20;  // bytes between two signs of progress

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

void ZeroHostMemory(std::byte* address, int64_t size_bytes) {
  for (int64_t done = 0; done < size_bytes; done += kZeroedASign) {
    std::memset(address + done, 0, static_cast<size_t>(std::min(kZeroedASign, size_bytes - done)));
    Progress::OfProcess().Add();
  }
}

}  // namespace medley
