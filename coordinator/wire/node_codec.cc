#include "coordinator/wire/node_codec.h"

#include <limits>
#include <set>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"
#include "runtime/wire/cluster_codec.h"
#include "runtime/wire/message_protection_codec.h"

namespace medley {
namespace {

// A device is known as "node/device", so neither part may be empty or have a "/".
absl::Status CheckName(const std::string& field, const std::string& name) {
  if (!name.empty() && name.find('/') == std::string::npos) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, " is \"", name, "\"; allowed is a name that is not empty and has no \"/\""));
}

absl::Status CheckDevice(const v1::Device& device, const std::string& field) {
  RETURN_IF_ERROR(CheckName(field + ".name", device.name()));
  constexpr uint64_t kMaxBytes = uint64_t{1} << 60;
  if (device.memory_bytes() > kMaxBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, ".memory_bytes is ", device.memory_bytes(), "; allowed are at most ", kMaxBytes));
  }
  for (const uint32_t core : device.cores()) {
    if (core <= static_cast<uint32_t>(std::numeric_limits<int>::max())) continue;
    return absl::InvalidArgumentError(absl::StrCat(field, ".cores has ", core, "; no machine has that many"));
  }
  return absl::OkStatus();
}

}  // namespace

v1::Node EncodeNode(const NodeSnapshot& node) {
  v1::Node encoded;
  encoded.set_name(node.description.name);
  encoded.set_agent_address(node.description.agent_address);
  encoded.set_host(node.description.host);
  encoded.set_host_memory_bytes(node.description.host_memory.value);
  encoded.set_network_cards(static_cast<uint32_t>(node.description.network_cards));
  encoded.set_site(node.description.site);
  encoded.set_rack(node.description.rack);
  encoded.set_message_protection(EncodeMessageProtection(node.description.message_protection));
  encoded.set_protects_messages(node.description.protects_messages);
  for (const ClusterDevice& device : node.description.devices)
    *encoded.add_devices() = EncodeClusterDevice(device);
  encoded.set_alive(node.alive);
  encoded.set_status(node.status);
  for (const auto& [device, job] : node.jobs) (*encoded.mutable_jobs())[device] = job;
  encoded.set_seconds_since_renewal(absl::ToDoubleSeconds(node.since_renewal));
  return encoded;
}

absl::StatusOr<NodeDescription> DecodeNode(const v1::Node& node, uint64_t incarnation) {
  RETURN_IF_ERROR(CheckName("node.name", node.name()));
  NodeDescription decoded{node.name(), node.agent_address(), node.host(), incarnation, {}, {}};
  decoded.host_memory = {static_cast<int64_t>(node.host_memory_bytes())};
  decoded.network_cards = static_cast<int>(node.network_cards());
  decoded.site = node.site();
  decoded.rack = node.rack();
  decoded.message_protection = DecodeMessageProtection(node.message_protection());
  decoded.protects_messages = node.protects_messages();
  std::set<std::string> names;
  for (int i = 0; i < node.devices_size(); ++i) {
    const std::string field = absl::StrCat("node.devices[", i, "]");
    const v1::Device& device = node.devices(i);
    RETURN_IF_ERROR(CheckDevice(device, field));
    if (!names.insert(device.name()).second) {
      return absl::InvalidArgumentError(absl::StrCat(
          field, ".name is \"", device.name(), "\", which another device of node ", node.name(), " has too"));
    }
    decoded.devices.push_back(DecodeClusterDevice(device));
  }
  return decoded;
}

}  // namespace medley
