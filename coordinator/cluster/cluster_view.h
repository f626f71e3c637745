#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "coordinator/cluster/lease_table.h"
#include "runtime/ir/cluster/cluster.h"
#include "runtime/ir/link/message_protection.h"

// What the coordinator knows about its nodes and who uses which device. Devices are named "node/device".
namespace medley {

// What a node says of itself when it registers.
struct NodeDescription {
  std::string name;
  std::string agent_address;  // "host:port"
  std::string host;           // nodes with equal host share cores
  uint64_t incarnation = 0;
  std::vector<ClusterDevice> devices;  // names unique
  Bytes host_memory;                   // ClusterNode::host_memory
  int network_cards = 0;               // ClusterNode::network_cards
  std::string site, rack;              // ClusterNode's
  // The least that its agent accepts, and whether it knows of protected messages at all.
  MessageProtection message_protection = MessageProtection::kNone;
  bool protects_messages = false;
};

// A life of a node that is over, with the jobs that had devices on it.
struct LostNode {
  std::string name;
  std::string reason;             // for people
  std::vector<std::string> jobs;  // ascending
  std::string agent_address;
};

struct NodeSnapshot {
  NodeDescription description;
  bool alive = false;
  bool left = false;                        // not alive, as its agent said before it ended
  std::string status;                       // why not alive; empty if it is
  std::map<std::string, std::string> jobs;  // device name (without the node) -> job that holds it
  absl::Duration since_renewal;             // never negative; of AddLost the least that it can be
};

struct ClusterDeviceLocation {
  std::string node;
  std::string agent_address;
  std::string host;
  uint64_t incarnation = 0;
  ClusterDevice device;
  Bytes host_memory;       // ClusterNode::host_memory
  int network_cards = 0;   // ClusterNode::network_cards
  std::string site, rack;  // ClusterNode's
  // As of NodeDescription.
  MessageProtection message_protection = MessageProtection::kNone;
  bool protects_messages = false;
};

inline std::string FullName(const ClusterDeviceLocation& location) {
  return FullName(location.node, location.device);
}

struct ClusterOptions {
  absl::Duration lease = absl::Seconds(10);      // the shortest: LeaseOf
  absl::Duration forget_after = absl::Hours(1);  // since the last renewal; dead nodes are shown until then
};

// Pure: time is an argument. Not thread-safe.
//
// A device belongs to a job from Occupy until Release, whatever becomes of its node meanwhile: who ends a
// job, or an attempt of it, releases.
class ClusterView {
 public:
  explicit ClusterView(const ClusterOptions& options = {}) : options_(options), leases_(options.lease) {}

  // Takes `node` in, alive from now on. Returns its former life if that ended by this call, with the jobs
  // that had devices there and have to be recovered; otherwise nothing. A repeat by the same incarnation
  // renews, no more.
  // AlreadyExists: as LeaseTable::Register; nothing is changed.
  absl::StatusOr<std::vector<LostNode>> Register(const NodeDescription& node, absl::Time now);

  // A node that another process knew, and that has not registered with this one: lost, and not heard of since `since` at the least. Nothing
  // if there is one of its name. Registering brings it back as any that was lost.
  void AddLost(const NodeDescription& node, absl::Time since);

  // As LeaseTable::Renew.
  absl::Status Renew(const std::string& node, uint64_t incarnation, absl::Time now,
                     absl::Duration promised = absl::ZeroDuration());

  // The nodes whose lease ended at or before `now`, each exactly once, by name.
  std::vector<LostNode> Expire(absl::Time now);

  // Forgets those long dead, and says which.
  std::vector<std::string> ForgetLongDead(absl::Time now);

  // Every lease ends later by so much: its holders could not be heard.
  void Extend(absl::Duration by) { leases_.Extend(by); }

  // The node's agent ends, as it says: its life is over, with the jobs that had devices there. Nothing if it
  // is another incarnation's, or over already.
  std::vector<LostNode> Leave(const std::string& node, uint64_t incarnation);

  // NotFound: no such node. FailedPrecondition: it is alive, or a job still has devices there.
  absl::Status Forget(const std::string& node);

  // Gives all of `devices` to `job`, or none. Devices that are the job's already stay so.
  // FailedPrecondition: one is another job's, or its node is not alive; names both.
  // NotFound: no such device; names it.
  absl::Status Occupy(absl::Span<const std::string> devices, const std::string& job);

  // Takes all its devices from `job`; nothing if it has none.
  void Release(const std::string& job);

  // The devices of live nodes that no job uses, ascending.
  std::vector<std::string> FreeDevices() const;

  // NotFound: no such device. FailedPrecondition: its node is not alive.
  absl::StatusOr<ClusterDeviceLocation> Find(const std::string& device) const;

  // Empty: there is no such node.
  std::string AgentAddressOf(const std::string& node) const;

  // Whether the node holds a lease in this life.
  bool IsAlive(const std::string& node, uint64_t incarnation) const;

  // All nodes that are not forgotten, by name.
  std::vector<NodeSnapshot> Nodes(absl::Time now) const;
  // One of them, if it is there.
  std::optional<NodeSnapshot> NodeNamed(const std::string& node, absl::Time now) const;

 private:
  struct Node {
    NodeDescription description;
    bool alive = true;
    absl::Time renewed;
    bool left = false;  // as it said
  };
  std::vector<std::string> JobsOn(const std::string& node) const;
  NodeSnapshot SnapshotOf(const Node& node, absl::Time now) const;

  ClusterOptions options_;
  LeaseTable leases_;
  std::map<std::string, Node> nodes_;
  bool some_are_dead_ = false;                        // or were when it was last looked
  std::map<std::string, std::string> job_of_device_;  // "node/device" -> job
};

}  // namespace medley
