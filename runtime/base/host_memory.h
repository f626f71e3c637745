#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>

namespace medley {

struct FreeHostMemory {
  void operator()(std::byte* address) const;
};
using HostMemory = std::unique_ptr<std::byte[], FreeHostMemory>;

// Memory for tensors and messages, not zeroed; null if the host has no more of it. Aligned to 64 bytes. Large
// blocks lie on huge pages where the kernel has them: a matmul walks its operands by column, and a copy
// between two processes pays for each page. `size_bytes` is at least 0.
HostMemory AllocateHostMemory(int64_t size_bytes);

// Sets `size_bytes` to zero, with signs of progress (progress.h): the first touch of hundreds of gigabytes
// takes minutes.
void ZeroHostMemory(std::byte* address, int64_t size_bytes);

}  // namespace medley
