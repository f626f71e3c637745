#pragma once
#include <catch2/catch.hpp>
#include <cstring>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "comm/conformance/test_cluster.h"
#include "runtime/base/clock.h"

// What the tests of the contract share.
namespace medley {

using Message = std::vector<std::byte>;
inline constexpr MessageTag kTag{MessageTag::Kind::kActivation, 3, 9};

inline absl::Time Soon() { return Now() + absl::Seconds(20); }
inline absl::Time At(absl::Duration duration) { return Now() + duration; }

inline Message RandomMessage(size_t size, uint64_t seed) {
  std::mt19937_64 random(seed);
  Message message(size);
  for (size_t at = 0; at < size; at += 8) {
    const uint64_t word = random();
    std::memcpy(message.data() + at, &word, std::min<size_t>(8, size - at));
  }
  return message;
}

// Opens `size` ranks of the kind under test.
inline std::unique_ptr<TestCluster> Open(const TransportUnderTest& kind, int size) {
  absl::StatusOr<std::unique_ptr<TestCluster>> cluster = kind.open(size);
  INFO(cluster.status().ToString());
  REQUIRE(cluster.ok());
  return *std::move(cluster);
}

// Runs the rest of the test once for every transport.
#define CLUSTER_OF(size)                                                               \
  const TransportUnderTest kind =                                                      \
      AllTransports()[GENERATE(range(size_t{0}, size_t{TransportUnderTest::kKinds}))]; \
  CAPTURE(kind.name);                                                                  \
  const std::unique_ptr<TestCluster> cluster = Open(kind, size)

inline std::unique_ptr<Transfer> Started(absl::StatusOr<std::unique_ptr<Transfer>> transfer) {
  INFO(transfer.status().ToString());
  REQUIRE(transfer.ok());
  return *std::move(transfer);
}

#define CHECK_OK(expr)                   \
  do {                                   \
    const absl::Status status_ = (expr); \
    INFO(status_.ToString());            \
    CHECK(status_.ok());                 \
  } while (false)

}  // namespace medley
