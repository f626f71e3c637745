#include "kernels/host/host_queue.h"

#include <array>
#include <catch2/catch.hpp>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace medley {
namespace {

TEST_CASE("Allocate gives zeroed memory aligned to 64 bytes") {
  HostQueue queue("host", MiB(64));
  for (const int64_t size : {int64_t{0}, int64_t{1}, int64_t{63}, int64_t{4097}, int64_t{5} << 20}) {
    CAPTURE(size);
    {
      auto dirty = queue.Allocate({size});  // so that a recycled block would show
      REQUIRE(dirty.ok());
      std::memset((*dirty)->host_address(), 0xff, size);
    }
    auto buffer = queue.Allocate({size});
    REQUIRE(buffer.ok());
    CHECK((*buffer)->size() == Bytes{size});
    CHECK(reinterpret_cast<uintptr_t>((*buffer)->host_address()) % 64 == 0);
    int64_t nonzero = 0;
    for (int64_t i = 0; i < size; ++i) nonzero += (*buffer)->host_address()[i] != std::byte{0};
    CHECK(nonzero == 0);
  }
}

TEST_CASE("the limit counts live buffers and its error has limit, use and request") {
  HostQueue queue("host", KiB(10));
  auto first = queue.Allocate(KiB(6));
  REQUIRE(first.ok());
  const auto refused = queue.Allocate({KiB(4).value + 1});
  REQUIRE(absl::IsResourceExhausted(refused.status()));
  const std::string message(refused.status().message());
  CHECK(message.find("10.0 KiB") != std::string::npos);
  CHECK(message.find("6.0 KiB") != std::string::npos);
  CHECK(message.find("4097 B") != std::string::npos);
  auto second = queue.Allocate(KiB(4));
  REQUIRE(second.ok());
  CHECK(queue.allocated() == KiB(10));
  first->reset();
  CHECK(queue.allocated() == KiB(4));
  CHECK(queue.peak_allocated() == KiB(10));
  CHECK(queue.Allocate(KiB(6)).ok());
  CHECK(absl::IsInvalidArgument(queue.Allocate({-1}).status()));
  CHECK(absl::IsResourceExhausted(queue.Allocate({INT64_MAX}).status()));
}

TEST_CASE("an upload or download past the end copies nothing and leaves the queue whole") {
  HostQueue queue("host", KiB(1));
  auto buffer = queue.Allocate({4});
  REQUIRE(buffer.ok());
  const std::array<std::byte, 5> five{std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}, std::byte{5}};
  std::array<std::byte, 4> back{};
  CHECK(absl::IsOutOfRange(queue.Upload(five, **buffer, {0})));
  CHECK(absl::IsOutOfRange(queue.Upload(absl::MakeSpan(five).first(1), **buffer, {4})));
  CHECK(absl::IsOutOfRange(queue.Upload(absl::MakeSpan(five).first(1), **buffer, {-1})));
  CHECK(absl::IsOutOfRange(queue.Download(**buffer, {1}, absl::MakeSpan(back))));
  REQUIRE(queue.Download(**buffer, {0}, absl::MakeSpan(back)).ok());
  CHECK(back == std::array<std::byte, 4>{});
  CHECK(queue.Upload(absl::MakeSpan(five).subspan(1, 2), **buffer, {2}).ok());
  CHECK(queue.Upload({}, **buffer, {4}).ok());
  REQUIRE(queue.Download(**buffer, {0}, absl::MakeSpan(back)).ok());
  CHECK(back == std::array<std::byte, 4>{std::byte{0}, std::byte{0}, std::byte{2}, std::byte{3}});
  CHECK(queue.Wait(queue.Record()).ok());
}

TEST_CASE("a poisoned queue returns its first error from every later Wait and submission") {
  HostQueue queue("host", KiB(1));
  auto buffer = queue.Allocate({4});
  REQUIRE(buffer.ok());
  const Fence before = queue.Record();
  CHECK(queue.Poison(absl::InternalError("first")).message() == "first");
  CHECK(queue.Poison(absl::AbortedError("second")).message() == "first");
  CHECK(queue.Wait(before) == absl::InternalError("first"));
  CHECK(queue.Wait(queue.Record()) == absl::InternalError("first"));
  const std::array<std::byte, 1> one{std::byte{1}};
  CHECK(queue.Upload(one, **buffer, {0}) == absl::InternalError("first"));
}

TEST_CASE("fences grow") {
  HostQueue queue("host", KiB(1));
  const Fence first = queue.Record();
  CHECK(queue.Record().value > first.value);
}

}  // namespace
}  // namespace medley
