#include "comm/collective/collective_check.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <numeric>
#include <utility>

#include "comm/collective/run_collective.h"
#include "runtime/base/clock.h"
#include "runtime/ir/collective/run_serially.h"

namespace medley {

absl::Time Soon() { return Now() + absl::Seconds(60); }

std::unique_ptr<TestCluster> OpenCluster(const TransportUnderTest& kind, int size) {
  auto cluster = kind.open(size);
  INFO(cluster.status().ToString());
  REQUIRE(cluster.ok());
  return *std::move(cluster);
}

std::vector<int> UpTo(int n) {
  std::vector<int> members(n);
  std::iota(members.begin(), members.end(), 0);
  return members;
}

CollectiveCase::CollectiveCase(Random& random, CollectiveSchedule schedule_, std::vector<int> members_,
                               WireType wire_)
    : schedule(std::move(schedule_)),
      members(std::move(members_)),
      wire(wire_),
      offset(RandomBelow(random, 5)) {
  for (size_t i = 0; i < members.size(); ++i) want.push_back(RandomFloats(random, schedule.elements));
  values = want;
  for (std::vector<float>& row : values) row.insert(row.begin(), offset, 17.0f);
  const absl::Status status = RunSerially(schedule, wire, want);
  INFO(status.ToString());
  REQUIRE(status.ok());
}

absl::Status CollectiveCase::Run(Transport& transport, uint16_t channel) {
  const auto own = std::find(members.begin(), members.end(), transport.rank());
  if (own == members.end()) return absl::OkStatus();
  return RunCollective(transport, schedule, members, channel,
                       absl::MakeSpan(values[own - members.begin()]).subspan(offset), wire, Soon());
}

bool CollectiveCase::AsWanted() const {
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::count(values[i].begin(), values[i].begin() + offset, 17.0f) != offset) return false;
    if (want[i].empty()) continue;
    if (std::memcmp(values[i].data() + offset, want[i].data(), want[i].size() * sizeof(float)) != 0)
      return false;
  }
  return true;
}

void CheckCollective(TestCluster& cluster, Random& random, CollectiveSchedule schedule, WireType wire) {
  CollectiveCase one(random, std::move(schedule), UpTo(cluster.size()), wire);
  for (const absl::Status& status :
       cluster.OnEveryRank([&](Transport& transport) { return one.Run(transport, /*channel=*/5); })) {
    INFO(status.ToString());
    CHECK(status.ok());
  }
  CHECK(one.AsWanted());
}

}  // namespace medley
