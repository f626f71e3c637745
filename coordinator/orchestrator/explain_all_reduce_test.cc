#include "coordinator/orchestrator/explain_all_reduce.h"

#include <catch2/catch.hpp>

#include "absl/strings/str_cat.h"
#include "coordinator/orchestrator/link_pairs.h"
#include "coordinator/orchestrator/link_samples.h"

namespace medley {
namespace {

ClusterDeviceLocation DeviceOn(const std::string& node, const std::string& name) {
  ClusterDeviceLocation device{.node = node, .host = node};
  device.device.description.name = name;
  device.device.kind = "h100";
  return device;
}

// Between nodes whose names begin alike 10 GB/s and 1 us, between others 0.1 GB/s and 100 us.
LinkTable Links(const std::vector<ClusterDeviceLocation>& devices) {
  std::vector<v1::LinkProfile> links;
  for (const DevicePair& pair : PairsToMeasure(devices, LinkTable({}))) {
    const ClusterDeviceLocation &a = devices[pair.first], &b = devices[pair.second];
    const bool near = a.node[0] == b.node[0];
    v1::LinkProfile& link = links.emplace_back();
    link.set_kind(LinkKind(a, b));
    link.set_a(FullName(a));
    link.set_b(FullName(b));
    link.set_latency_seconds(near ? 1e-6 : 1e-4);
    link.set_bytes_per_second(near ? 1e10 : 1e8);
    link.set_all_reduce_bytes_per_second(near ? 1e10 : 1e8);
  }
  return LinkTable(links);
}

TEST_CASE("two nodes far apart are summed inside first; the fastest comes first and is what is taken") {
  const std::vector<ClusterDeviceLocation> devices = {DeviceOn("a", "g0"), DeviceOn("b", "g0"),
                                                      DeviceOn("a", "g1"), DeviceOn("b", "g1")};
  const absl::StatusOr<v1::AllReduceExplanation> why = ExplainAllReduce(devices, 64 << 20, Links(devices));
  INFO(why.status().ToString());
  REQUIRE(why.ok());
  REQUIRE(why->candidates_size() == 4);
  CAPTURE(why->ShortDebugString());
  CHECK(why->chosen() == why->candidates(0).algorithm());
  for (int i = 1; i < 4; ++i)
    CHECK(why->candidates(i - 1).predicted_seconds() <= why->candidates(i).predicted_seconds());
  for (const v1::AllReduceCandidate& candidate : why->candidates()) {
    CHECK(candidate.predicted_seconds() > 0);
    if (candidate.algorithm() != v1::ALL_REDUCE_ALGORITHM_HIERARCHICAL) continue;
    CHECK_THAT(candidate.shape(), Catch::Contains("(a/g0, a/g1)") || Catch::Contains("(a/g1, a/g0)"));
  }
}

TEST_CASE("where nothing divides the devices a hierarchy is out of the question, and said to be last") {
  const std::vector<ClusterDeviceLocation> devices = {DeviceOn("a", "g0"), DeviceOn("a", "g1"),
                                                      DeviceOn("a", "g2")};
  const absl::StatusOr<v1::AllReduceExplanation> why = ExplainAllReduce(devices, 4096, Links(devices));
  REQUIRE(why.ok());
  CHECK(why->candidates(3).algorithm() == v1::ALL_REDUCE_ALGORITHM_HIERARCHICAL);
  CHECK_THAT(why->candidates(3).impossible(), Catch::Contains("no boundary"));
  for (int i = 0; i < 3; ++i) CHECK(why->candidates(i).impossible().empty());
}

TEST_CASE("hosts with known cards sum side by side, but for what sites share, as plans have it") {
  std::vector<ClusterDeviceLocation> devices;
  for (int node = 0; node < 8; ++node)
    devices.push_back(DeviceOn(absl::StrCat(node < 4 ? "a" : "b", node), "g0"));
  const auto seconds = [&] {
    const absl::StatusOr<v1::AllReduceExplanation> why = ExplainAllReduce(devices, 64 << 20, Links(devices));
    INFO(why.status().ToString());
    REQUIRE(why.ok());
    return why->candidates(0).predicted_seconds();
  };
  const double one_by_one = seconds();
  for (ClusterDeviceLocation& device : devices) device.network_cards = 1;
  const double side_by_side = seconds();  // four at a time
  CHECK(side_by_side < one_by_one / 2);
  for (ClusterDeviceLocation& device : devices) device.site = device.node.substr(0, 1);
  CHECK(seconds() > 2 * side_by_side);
}

TEST_CASE("what cannot be explained is refused by name") {
  const std::vector<ClusterDeviceLocation> devices = {DeviceOn("a", "g0"), DeviceOn("b", "g0")};
  const absl::Status unmeasured = ExplainAllReduce(devices, 4096, LinkTable({})).status();
  CHECK(absl::IsFailedPrecondition(unmeasured));
  CHECK_THAT(std::string(unmeasured.message()), Catch::Contains("a/g0 - b/g0"));
  CHECK(absl::IsInvalidArgument(ExplainAllReduce({devices[0]}, 4096, Links(devices)).status()));
  CHECK(absl::IsInvalidArgument(ExplainAllReduce({devices[0], devices[0]}, 4096, Links(devices)).status()));
  CHECK(absl::IsInvalidArgument(ExplainAllReduce(devices, 3, Links(devices)).status()));
}

}  // namespace
}  // namespace medley
