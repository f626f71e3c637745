#include "comm/staging/staging_terms.h"

#include <catch2/catch.hpp>
#include <random>

namespace medley {
namespace {

constexpr CopyCosts kGpu{{10e-6, 25e9}, {12e-6, 20e9}};

EndMemory Device(bool reached = false, double direct = 0) {
  return {
      .host_reaches = false, .network_reaches = reached, .copies = kGpu, .direct_bytes_per_second = direct};
}

TEST_CASE("memory of the host is used as it is, whatever is asked for") {
  for (const auto asked : {DeviceMemoryStrategy::kAutomatic, DeviceMemoryStrategy::kDirect,
                           DeviceMemoryStrategy::kStaged, DeviceMemoryStrategy::kWhole}) {
    CHECK(ChooseHandling({}, asked).value() == Handling::kHost);
  }
}

TEST_CASE(
    "a device's memory goes direct where the network reaches it, unless that was measured to be slower") {
  const auto automatic = [](const EndMemory& end) {
    return ChooseHandling(end, DeviceMemoryStrategy::kAutomatic).value();
  };
  CHECK(automatic(Device()) == Handling::kStaged);
  CHECK(automatic(Device(true)) == Handling::kDirect);
  CHECK(automatic(Device(true, 30e9)) == Handling::kDirect);
  CHECK(automatic(Device(true, 2e9)) == Handling::kStaged);
  CHECK(ChooseHandling(Device(true, 2e9), DeviceMemoryStrategy::kDirect).value() == Handling::kDirect);
  CHECK(ChooseHandling(Device(true), DeviceMemoryStrategy::kWhole).value() == Handling::kWhole);
  CHECK(ChooseHandling(Device(true), DeviceMemoryStrategy::kStaged).value() == Handling::kStaged);
}

TEST_CASE("direct where the network does not reach is refused with what can be done") {
  const absl::Status refused = ChooseHandling(Device(), DeviceMemoryStrategy::kDirect).status();
  REQUIRE(absl::IsInvalidArgument(refused));
  CHECK_THAT(std::string(refused.message()), Catch::Contains("communication.device_memory") &&
                                                 Catch::Contains("UCX") && Catch::Contains("staged"));
}

TEST_CASE("terms survive the wire, and nothing else is taken for terms") {
  for (const StagingTerms& terms :
       {TermsOf(Handling::kHost, {}), TermsOf(Handling::kDirect, kGpu), TermsOf(Handling::kStaged, kGpu),
        TermsOf(Handling::kWhole, kGpu), StagingTerms{Handling::kStaged, uint32_t{kLargestChunkBytes}}}) {
    CHECK(DecodeTerms(EncodeTerms(terms)).value() == terms);
  }
  const std::string good = EncodeTerms(TermsOf(Handling::kStaged, kGpu));
  CHECK(absl::IsInvalidArgument(DecodeTerms("").status()));
  CHECK(absl::IsInvalidArgument(DecodeTerms(good + "x").status()));
  std::mt19937_64 random(1);
  for (int i = 0; i < 20000; ++i) {
    CAPTURE(i);
    std::string bytes = good;
    for (int flips = 1 + random() % 3; flips > 0; --flips)
      bytes[random() % bytes.size()] = static_cast<char>(random());
    const auto decoded = DecodeTerms(bytes);
    // Whatever is accepted is written in one way only, and within bounds.
    if (decoded.ok()) {
      REQUIRE(EncodeTerms(*decoded) == bytes);
      REQUIRE(decoded->chunk_overhead_bytes <= kLargestChunkBytes);
    }
  }
}

TEST_CASE("both ends cut a message alike, into chunks in bounds, and only where one of them stages") {
  std::mt19937_64 random(2);
  const StagingTerms host, whole{Handling::kWhole, 0}, direct{Handling::kDirect, 0};
  for (int i = 0; i < 20000; ++i) {
    const int64_t bytes = static_cast<int64_t>(random() >> (random() % 63 + 1));
    const StagingTerms staged{Handling::kStaged,
                              static_cast<uint32_t>(kSmallestChunkBytes + random() % 4000000)};
    const StagingTerms others[] = {host, whole, direct, {Handling::kStaged, uint32_t{kSmallestChunkBytes}}};
    const StagingTerms& other = others[random() % 4];
    CAPTURE(bytes, staged.chunk_overhead_bytes, NameOf(other.handling));
    const int64_t chunk = WireChunkBytes(bytes, staged, other);
    REQUIRE(chunk == WireChunkBytes(bytes, other, staged));
    REQUIRE(chunk <= kLargestChunkBytes);
    REQUIRE(chunk >= std::min(bytes, kSmallestChunkBytes / 2));
    REQUIRE(WireChunkBytes(bytes, host, direct) == bytes);
    REQUIRE(WireChunkBytes(bytes, whole, host) == bytes);
  }
  const StagingTerms staged = TermsOf(Handling::kStaged, kGpu);
  CHECK(WireChunkBytes(0, staged, host) == 0);
  CHECK(WireChunkBytes(1, staged, host) == 1);
  CHECK(WireChunkBytes(INT64_MAX, staged, host) == kLargestChunkBytes);
  // sqrt(4 MiB * 250,000 B) is 1,024,000.
  CHECK(WireChunkBytes(4 << 20, staged, host) == 1 << 20);
  // Even ones: not 1 MiB and a byte.
  CHECK(WireChunkBytes((4 << 20) + 1, staged, host) == 820 << 10);
}

}  // namespace
}  // namespace medley
