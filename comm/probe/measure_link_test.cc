#include "comm/probe/measure_link.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "comm/conformance/test_cluster.h"
#include "comm/probe/measure_by_size.h"
#include "runtime/base/clock.h"

namespace medley {
namespace {

// Eighty times what measuring takes on an idle machine; how long it is meant to take is said of links that are imagined.
absl::Time Soon() { return Now() + absl::Minutes(2); }

// `pair[rank]` is the peer of `rank`; the higher one leads.
std::vector<absl::StatusOr<LinkMeasurement>> MeasurePairs(TestCluster& cluster,
                                                          const std::vector<int>& pair) {
  std::vector<absl::StatusOr<LinkMeasurement>> got(pair.size(), absl::UnknownError("not measured"));
  cluster.OnEveryRank([&](Transport& transport) -> absl::Status {
    const int rank = transport.rank(), peer = pair[rank];
    if (peer == rank) return absl::OkStatus();
    got[rank] = MeasureLink(transport, peer, rank > peer ? ProbeRole::kLeader : ProbeRole::kFollower, Soon());
    return got[rank].status();
  });
  return got;
}

void CheckPlausible(const LinkMeasurement& link) {
  // A message cannot be faster than memory nor slower than a modem, on a machine however busy.
  CHECK((link.latency_seconds > 1e-8 && link.latency_seconds < 0.1));
  CHECK((link.bandwidth_bytes_per_second > 1e6 && link.bandwidth_bytes_per_second < 1e12));
  CHECK((link.all_reduce_bytes_per_second > 1e6 && link.all_reduce_bytes_per_second < 1e12));
  for (const LinkModel& model : {link.cost.transfer, link.cost.exchange}) {
    CHECK(CheckLinkModel(model).ok());
    CHECK((model.Seconds(8) > 1e-8 && model.Seconds(8) < 0.1));
    const double seconds = model.Seconds(double{1 << 24});
    CHECK((seconds > (1 << 24) / 1e12 && seconds < (1 << 24) / 1e6));
  }
}

TEST_CASE("both ends of a link get the same plausible figures, while another pair measures") {
  const std::vector<TransportUnderTest> transports = AllTransports();
  const size_t kind = GENERATE_COPY(range(size_t{0}, transports.size()));
  CAPTURE(transports[kind].name);
  auto cluster = transports[kind].open(5);
  REQUIRE(cluster.ok());
  const auto got = MeasurePairs(**cluster, {3, 4, 2, 0, 1});
  for (const auto& [a, b] : {std::pair(0, 3), std::pair(1, 4)}) {
    INFO(got[a].status().ToString() << " " << got[b].status().ToString());
    REQUIRE((got[a].ok() && got[b].ok()));
    CHECK(got[a]->latency_seconds == got[b]->latency_seconds);
    CHECK(got[a]->bandwidth_bytes_per_second == got[b]->bandwidth_bytes_per_second);
    CHECK(got[a]->all_reduce_bytes_per_second == got[b]->all_reduce_bytes_per_second);
    CHECK(got[a]->cost == got[b]->cost);
    CheckPlausible(*got[a]);
  }
}

TEST_CASE("two ranks of one role are told so") {
  const ProbeRole role = GENERATE(ProbeRole::kLeader, ProbeRole::kFollower);
  auto cluster = AllTransports()[0].open(2);
  REQUIRE(cluster.ok());
  const auto statuses = (*cluster)->OnEveryRank([&](Transport& transport) {
    return MeasureLink(transport, 1 - transport.rank(), role, Soon()).status();
  });
  for (const absl::Status& status : statuses) CHECK(absl::IsFailedPrecondition(status));
}

TEST_CASE("a peer that does not answer ends the probe at the deadline") {
  auto cluster = AllTransports()[0].open(2);
  REQUIRE(cluster.ok());
  const auto measured =
      MeasureLink((*cluster)->rank(0), 1, ProbeRole::kLeader, Now() + absl::Milliseconds(20));
  CHECK(absl::IsDeadlineExceeded(measured.status()));
}

TEST_CASE("a follower refuses what cannot be") {
  struct Order {
    uint64_t kind, bytes, times;
  };
  const std::vector<Order> orders = {{9, 8, 1}, {1, uint64_t{1} << 62, 1}, {2, ~uint64_t{0}, 1}};
  const size_t which = GENERATE_COPY(range(size_t{0}, orders.size()));
  auto cluster = AllTransports()[0].open(2);
  REQUIRE(cluster.ok());
  const auto statuses = (*cluster)->OnEveryRank([&](Transport& transport) -> absl::Status {
    LinkProber prober(transport, 1 - transport.rank(), Soon());
    if (transport.rank() == 1) return prober.Follow();
    return prober.Send({reinterpret_cast<const std::byte*>(&orders[which]), sizeof(Order)});
  });
  CHECK(statuses[0].ok());
  CHECK(absl::IsInvalidArgument(statuses[1]));
}

TEST_CASE("both ends get each other's text, cut where it is too long") {
  auto cluster = AllTransports()[0].open(2);
  REQUIRE(cluster.ok());
  const std::string texts[2] = {"from rank 0", std::string(2 * kMostProbeText, 'x')};
  std::string got[2];
  (*cluster)->OnEveryRank([&](Transport& transport) -> absl::Status {
    const int rank = transport.rank();
    const auto text = ExchangeText(transport, 1 - rank, texts[rank], Soon());
    if (text.ok()) got[rank] = *text;
    return text.status();
  });
  CHECK(got[1] == texts[0]);
  CHECK(got[0] == texts[1].substr(0, kMostProbeText));
}

struct Imagined {
  std::vector<LinkPoint> points;
  double probe_seconds = 0;
};

// A link that takes what a line says, both ways one after the other; its first message of a size takes twice
// as long.
Imagined Imagine(const LinkModel& line) {
  Imagined imagined;
  std::vector<size_t> seen;
  const auto points = MeasureBySize([&](size_t bytes,
                                        int repetitions) -> absl::StatusOr<std::vector<double>> {
    std::vector<double> seconds(static_cast<size_t>(repetitions), line.Seconds(static_cast<double>(bytes)));
    if (std::find(seen.begin(), seen.end(), bytes) == seen.end()) seconds[0] *= 2;
    seen.push_back(bytes);
    for (const double one : seconds) imagined.probe_seconds += 2 * one;
    return seconds;
  });
  REQUIRE(points.ok());
  imagined.points = *points;
  return imagined;
}

TEST_CASE("the probe of a fast link is short, that of a slow one takes seconds, and both find the line") {
  struct Case {
    double bytes_per_second, most_seconds, least_largest_bytes;
  };
  for (const Case& c : {Case{1e10, 0.7, 16 << 20}, Case{1e9, 1, 16 << 20}, Case{1.25e8, 1.5, 1 << 20},
                        Case{1.25e7, 2, 256 << 10}, Case{1.25e5, 12, 64 << 10}, Case{1e3, 15, 512}}) {
    CAPTURE(c.bytes_per_second);
    const LinkModel line = LinkModel::Line(2e-5, c.bytes_per_second);
    const Imagined imagined = Imagine(line);
    CHECK(imagined.probe_seconds < c.most_seconds);
    CHECK(imagined.points.back().bytes >= c.least_largest_bytes);
    const LinkModel fit = FitLinkModel(imagined.points, 0.03, 12);
    for (const double bytes : {8.0, 4096.0, 1e6, 1e8})
      CHECK(fit.Seconds(bytes) == Approx(line.Seconds(bytes)).epsilon(0.05));
  }
}

TEST_CASE("what a rate limit lets through at first, and slow first messages, are no part of the figure") {
  for (const double bytes_per_second : {1.25e8, 2.5e7, 1.25e6}) {
    CAPTURE(bytes_per_second);
    constexpr double kBucketBytes = 128 << 10, kFastSeconds = 1e-5;
    double tokens = kBucketBytes;
    int calls = 0;
    const auto points = MeasureBySize([&](size_t bytes, int times) -> absl::StatusOr<std::vector<double>> {
      std::vector<double> seconds;
      for (int i = 0; i < times; ++i) {
        const double size = static_cast<double>(bytes);
        double one = kFastSeconds;
        if (tokens < size) one += (size - tokens) / bytes_per_second;
        tokens = std::min(kBucketBytes, std::max(0.0, tokens - size) + one * bytes_per_second);
        seconds.push_back(++calls % 40 == 1 && bytes < 4096 ? 50 * one : one);
      }
      tokens = kBucketBytes;  // a pause
      return seconds;
    });
    REQUIRE(points.ok());
    for (const LinkPoint& point : *points) {
      CAPTURE(point.bytes);
      // What the rate allows, or less where the limit never bites.
      if (point.bytes < 512) CHECK(point.seconds == Approx(kFastSeconds).epsilon(0.01));
      if (point.bytes >= 256 << 10) {
        CHECK(point.seconds > 0.5 * point.bytes / bytes_per_second);
        CHECK(point.seconds < 1.1 * point.bytes / bytes_per_second + kFastSeconds);
      }
    }
  }
}

TEST_CASE("an error ends the measuring") {
  int calls = 0;
  const auto points = MeasureBySize([&](size_t, int) -> absl::StatusOr<std::vector<double>> {
    if (++calls < 4) return std::vector<double>{1e-5};
    return absl::UnavailableError("gone");
  });
  CHECK(absl::IsUnavailable(points.status()));
  CHECK(calls == 4);
}

}  // namespace
}  // namespace medley
