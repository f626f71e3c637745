#include "kernels/cpu/scratch.h"

#include <sys/mman.h>

#include <cstdlib>
#include <new>

namespace medley {

void Scratch::Free::operator()(void* address) const { std::free(address); }

float* Scratch::Floats(int64_t count) {
  const int64_t needed = count * static_cast<int64_t>(sizeof(float));
  if (needed > size_bytes_) {
    constexpr int64_t kHugePageBytes = int64_t{2} << 20;
    const int64_t alignment = needed >= 2 * kHugePageBytes ? kHugePageBytes : 64;
    const int64_t rounded = (needed + alignment - 1) / alignment * alignment;
    block_.reset();
    size_bytes_ = 0;
    block_.reset(std::aligned_alloc(alignment, rounded));
    if (block_ == nullptr) throw std::bad_alloc();
    if (alignment == kHugePageBytes) madvise(block_.get(), rounded, MADV_HUGEPAGE);
    size_bytes_ = rounded;
  }
  return static_cast<float*>(block_.get());
}

}  // namespace medley
