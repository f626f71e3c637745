#include "comm/probe/measure_link.h"

#include <catch2/catch.hpp>
#include <vector>

#include "comm/conformance/test_cluster.h"

namespace medley {
namespace {

TEST_CASE("both ends of a link get the same plausible figures") {
  const TransportUnderTest kind = GENERATE(from_range(AllTransports()));
  CAPTURE(kind.name);
  auto cluster = kind.open(3);
  REQUIRE(cluster.ok());
  std::vector<LinkMeasurement> got(3);
  const absl::Time begin = absl::Now();
  const auto statuses = (*cluster)->OnEveryRank([&](Transport& transport) -> absl::Status {
    if (transport.rank() == 1) return absl::OkStatus();
    const auto measured = MeasureLink(transport, 2 - transport.rank(),
                                      transport.rank() == 2 ? ProbeRole::kLeader : ProbeRole::kFollower,
                                      absl::Now() + absl::Seconds(20));
    if (measured.ok()) got[transport.rank()] = *measured;
    return measured.status();
  });
  const absl::Duration took = absl::Now() - begin;
  for (const absl::Status& status : statuses) {
    INFO(status.ToString());
    CHECK(status.ok());
  }
  CAPTURE(got[0].latency_seconds, got[0].bandwidth_bytes_per_second, got[0].all_reduce_bytes_per_second);
  CAPTURE(absl::FormatDuration(took));
  CHECK(got[0].latency_seconds == got[2].latency_seconds);
  CHECK(got[0].bandwidth_bytes_per_second == got[2].bandwidth_bytes_per_second);
  CHECK(got[0].all_reduce_bytes_per_second == got[2].all_reduce_bytes_per_second);
  // A message cannot be faster than memory nor slower than a modem, on a machine however busy.
  CHECK((got[0].latency_seconds > 1e-8 && got[0].latency_seconds < 0.1));
  CHECK((got[0].bandwidth_bytes_per_second > 1e6 && got[0].bandwidth_bytes_per_second < 1e12));
  CHECK((got[0].all_reduce_bytes_per_second > 1e6 && got[0].all_reduce_bytes_per_second < 1e12));
  CHECK(took < absl::Seconds(5));
}

TEST_CASE("two ranks of one role are told so") {
  const ProbeRole role = GENERATE(ProbeRole::kLeader, ProbeRole::kFollower);
  auto cluster = AllTransports()[0].open(2);
  REQUIRE(cluster.ok());
  const auto statuses = (*cluster)->OnEveryRank([&](Transport& transport) {
    return MeasureLink(transport, 1 - transport.rank(), role, absl::Now() + absl::Seconds(20)).status();
  });
  for (const absl::Status& status : statuses) CHECK(absl::IsFailedPrecondition(status));
}

TEST_CASE("a peer that does not answer ends the probe at the deadline") {
  auto cluster = AllTransports()[0].open(2);
  REQUIRE(cluster.ok());
  const auto measured =
      MeasureLink((*cluster)->rank(0), 1, ProbeRole::kLeader, absl::Now() + absl::Milliseconds(20));
  CHECK(absl::IsDeadlineExceeded(measured.status()));
}

}  // namespace
}  // namespace medley
