#pragma once
#include <cstdint>

#include "runtime/base/bytes.h"
#include "runtime/base/host_memory.h"

namespace medley {

// One growing block of memory that ops use one after another. Contents are undefined between ops. Not
// thread-safe.
class Scratch {
 public:
  // At least `count` floats, aligned to 64 bytes, until the next call. Throws std::bad_alloc.
  float* Floats(int64_t count);

  Bytes size() const { return {size_bytes_}; }

 private:
  HostMemory block_;
  int64_t size_bytes_ = 0;
};

}  // namespace medley
