#include "runtime/base/evict_from_caches.h"

#include <catch2/catch.hpp>
#include <vector>

namespace medley {
namespace {

TEST_CASE("what is evicted stays what it was, and its neighbours too") {
  std::vector<std::byte> bytes(10'000);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 7);
  const std::vector<std::byte> before = bytes;
  const absl::Span<const std::byte> all = bytes;
  for (const size_t offset : {0, 1, 63, 64, 4095}) {
    for (const size_t size : {0, 1, 64, 65, 5000}) EvictFromCaches(all.subspan(offset, size));
  }
  EvictFromCaches(all);
  EvictFromCaches({});
  CHECK(bytes == before);
}

}  // namespace
}  // namespace medley
