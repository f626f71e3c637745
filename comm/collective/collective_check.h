#pragma once
#include <memory>
#include <vector>

#include "comm/conformance/test_cluster.h"
#include "runtime/ir/collective/collective_schedule.h"
#include "runtime/ir/collective/random_collective.h"
#include "runtime/ir/collective/wire_type.h"

// For tests of collectives over real transports.
namespace medley {

absl::Time Soon();

std::unique_ptr<TestCluster> OpenCluster(const TransportUnderTest& kind, int size);

// One collective of some ranks, what they give to it, and what must come out.
struct CollectiveCase {
  CollectiveSchedule schedule;
  std::vector<int> members;
  WireType wire = WireType::kF32;
  int offset = 0;                                // elements before the first, so that vectors are not aligned
  std::vector<std::vector<float>> values, want;  // by place, with `offset` elements before

  CollectiveCase(Random& random, CollectiveSchedule schedule, std::vector<int> members, WireType wire);
  // Runs this rank's part, if it has one.
  absl::Status Run(Transport& transport, uint16_t channel);
  // Whether every member has what RunSerially gives, to the bit.
  bool AsWanted() const;
};

// 0 .. n - 1.
std::vector<int> UpTo(int n);

// Runs one over all ranks of the cluster, and checks it.
void CheckCollective(TestCluster& cluster, Random& random, CollectiveSchedule schedule, WireType wire);

}  // namespace medley
