#pragma once
#include "absl/status/statusor.h"
#include "coordinator/cluster/cluster_view.h"
#include "proto/medley/v1/cluster.pb.h"

// Between what the coordinator knows of nodes and the messages it is said in.
namespace medley {

v1::Node EncodeNode(const NodeSnapshot& node);

// What a node says of itself; fields that only the coordinator fills in are not looked at. Expects that the
// message holds its rules (rules.proto), and checks what they cannot say.
// InvalidArgument: an empty name, or one with "/"; two devices of one name; a memory that no machine has.
// Names the field and its value.
absl::StatusOr<NodeDescription> DecodeNode(const v1::Node& node, uint64_t incarnation);

}  // namespace medley
