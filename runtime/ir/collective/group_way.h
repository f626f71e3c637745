#pragma once
#include <optional>
#include <string>
#include <vector>

#include "runtime/ir/collective/collective_schedule.h"
#include "runtime/ir/collective/group_facts.h"
#include "runtime/ir/collective/wire_type.h"
#include "runtime/ir/link/device_memory_strategy.h"
#include "runtime/ir/link/message_protection.h"

// Which way sums of gradients go among some ranks, or what the ranks of a unit exchange within passes. Pure; all
// ranks come to the same.
namespace medley {

enum class GroupUse {
  kGradients,
  kPasses,  // what the ranks of a unit sum, gather and scatter within its passes
};

enum class GroupWay {
  kLibrary,  // a library of the devices exchanges in their memory
  kDirect,   // the network reads and writes the devices' memory, and the devices add
  kHost,     // the hosts sum: in the memory itself where it is theirs, otherwise in pinned copies
};

struct GroupWayQuestion {
  GroupUse use = GroupUse::kGradients;
  std::vector<int> members;       // ranks, ascending, at least two
  std::vector<GroupFacts> facts;  // of all ranks
  // What the job forces; the last two of gradients alone.
  DeviceMemoryStrategy device_memory = DeviceMemoryStrategy::kAutomatic;
  WireType wire = WireType::kF32;
  std::optional<CollectiveAlgorithm> algorithm;
  // Of messages between nodes. A library has its own, which go past it.
  MessageProtection message_protection = MessageProtection::kNone;
  // Of gradients: the ranks whose units are to exchange by a library within passes. A device has one group at work at a
  // time: libraries promise nothing where two of them are taken in different orders.
  std::vector<int> exchanging_in_passes;
  // Why the library could not bring the members together, which was tried; empty: not tried, or it could.
  std::string failure;
};

struct GroupWayCandidate {
  GroupWay way = GroupWay::kHost;
  std::string name;       // for people: "NCCL 2.28.3", "direct", "staged through the host"
  std::string objection;  // why it cannot be; empty: it can
};

struct GroupWayChoice {
  GroupWay way = GroupWay::kHost;
  std::string reason;                         // why it is taken
  std::vector<GroupWayCandidate> candidates;  // in the order in which they are asked; the first that can be
};

// The host can always be.
GroupWayChoice ChooseGroupWay(const GroupWayQuestion& question);

// A line on what is done and why, then one for each candidate that was not taken.
std::string Explain(const GroupWayQuestion& question, const GroupWayChoice& choice);

}  // namespace medley
