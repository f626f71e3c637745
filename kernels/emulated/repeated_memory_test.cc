#include "kernels/emulated/repeated_memory.h"

#include <catch2/catch.hpp>

namespace medley {
namespace {

TEST_CASE("memory that is larger than what is there repeats itself to its last byte") {
  const Bytes size{3 * kMostRealMemory.value + 12345};
  const auto memory = AllocateRepeatedMemory(size);
  REQUIRE(memory.status().ToString() == "OK");
  const absl::Span<std::byte> bytes = (*memory)->bytes();
  REQUIRE(bytes.size() == static_cast<size_t>(size.value));
  const size_t real = static_cast<size_t>(kMostRealMemory.value);
  for (const size_t at : {size_t{0}, size_t{12344}}) {
    bytes[at] = std::byte{7};
    for (size_t copy = 1; copy <= 3; ++copy) CHECK(bytes[copy * real + at] == std::byte{7});
    bytes[3 * real + at] = std::byte{9};
    CHECK(bytes[at] == std::byte{9});
  }
  CHECK(bytes[real - 1] == std::byte{0});
}

TEST_CASE("as much as a large model's layers need is there, more than there are addresses for is refused") {
  const auto large = AllocateRepeatedMemory(GiB(256));
  REQUIRE(large.status().ToString() == "OK");
  (*large)->bytes().back() = std::byte{1};
  CHECK(absl::IsResourceExhausted(AllocateRepeatedMemory(Bytes{int64_t{1} << 60}).status()));
  CHECK(absl::IsInvalidArgument(AllocateRepeatedMemory(Bytes{-1}).status()));
  const auto small = AllocateRepeatedMemory(kMostRealMemory);
  REQUIRE(small.ok());
  (*small)->bytes().front() = std::byte{1};
  (*small)->bytes().back() = std::byte{2};
  CHECK((*small)->bytes().front() == std::byte{1});
}

}  // namespace
}  // namespace medley
