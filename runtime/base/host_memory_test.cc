#include "runtime/base/host_memory.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>

#include "runtime/base/progress.h"

namespace medley {
namespace {

TEST_CASE("memory is aligned, can be written to its end, and starts on a huge page where it is large") {
  for (const int64_t size : {int64_t{0}, int64_t{1}, int64_t{63}, int64_t{65}, int64_t{4095},
                             int64_t{3} << 20, int64_t{4} << 20, (int64_t{9} << 20) + 1}) {
    CAPTURE(size);
    const HostMemory memory = AllocateHostMemory(size);
    REQUIRE(memory != nullptr);
    std::memset(memory.get(), 1, static_cast<size_t>(size));
    const int64_t alignment = size < int64_t{4} << 20 ? 64 : int64_t{2} << 20;
    CHECK(reinterpret_cast<uintptr_t>(memory.get()) % alignment == 0);
  }
}

TEST_CASE("all that is asked for is zeroed and nothing behind it, with signs of progress") {
  const int64_t size = (int64_t{40} << 20) + 3;
  const HostMemory memory = AllocateHostMemory(size + 1);
  REQUIRE(memory != nullptr);
  std::memset(memory.get(), 1, static_cast<size_t>(size + 1));
  const uint64_t before = Progress::OfProcess().count();
  ZeroHostMemory(memory.get(), size);
  CHECK(Progress::OfProcess().count() - before == 3);
  CHECK(std::count(memory.get(), memory.get() + size, std::byte{0}) == size);
  CHECK(memory[size] == std::byte{1});
  ZeroHostMemory(memory.get() + size, 0);
  CHECK(memory[size] == std::byte{1});
}

TEST_CASE("of an absurd size there is none") {
  for (const int64_t size : {INT64_MAX, INT64_MAX - 1}) {
    CAPTURE(size);
    CHECK(AllocateHostMemory(size) == nullptr);
  }
}

}  // namespace
}  // namespace medley
