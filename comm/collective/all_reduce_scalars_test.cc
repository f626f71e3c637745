#include "comm/collective/all_reduce_scalars.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <random>
#include <vector>

#include "comm/conformance/test_cluster.h"
#include "runtime/base/clock.h"

namespace medley {
namespace {

TEST_CASE("AllReduceScalars adds in rank order, to the bit, for any subset of ranks") {
  const int ranks = GENERATE(1, 2, 3, 8);
  const int kind = GENERATE(range(0, TransportUnderTest::kKinds));
  const TransportUnderTest transport = AllTransports()[kind];
  CAPTURE(transport.name, ranks);
  const auto cluster = transport.open(ranks);
  INFO(cluster.status().ToString());
  REQUIRE(cluster.ok());
  std::vector<int> members;
  for (int rank = 0; rank < ranks; ++rank) members.push_back(rank);
  for (const size_t count : {0, 1, 5, 300}) {
    CAPTURE(count);
    std::vector<std::vector<double>> values(ranks);
    std::mt19937_64 random(count);
    for (auto& row : values) {
      for (size_t i = 0; i < count; ++i) row.push_back(std::normal_distribution<double>()(random) * 1e3);
    }
    std::vector<double> want(count, 0.0);
    for (const auto& row : values) {
      for (size_t i = 0; i < count; ++i) want[i] += row[i];
    }
    const auto statuses = (*cluster)->OnEveryRank([&](Transport& transport) {
      return AllReduceScalars(transport, members, absl::MakeSpan(values[transport.rank()]),
                              Now() + absl::Seconds(20));
    });
    for (int rank = 0; rank < ranks; ++rank) {
      INFO(statuses[rank].ToString());
      CHECK(statuses[rank].ok());
      CHECK((count == 0 || std::memcmp(values[rank].data(), want.data(), count * sizeof(double)) == 0));
    }
  }
}

}  // namespace
}  // namespace medley
