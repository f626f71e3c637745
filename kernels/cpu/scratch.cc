#include "kernels/cpu/scratch.h"

#include <new>

namespace medley {

float* Scratch::Floats(int64_t count) {
  const int64_t needed = count * static_cast<int64_t>(sizeof(float));
  if (needed > size_bytes_) {
    block_.reset();
    size_bytes_ = 0;
    block_ = AllocateHostMemory(needed);
    if (block_ == nullptr) throw std::bad_alloc();
    size_bytes_ = needed;
  }
  return reinterpret_cast<float*>(block_.get());
}

}  // namespace medley
