#include "coordinator/orchestrator/protection_terms.h"

#include <algorithm>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "runtime/base/some_names.h"
#include "runtime/wire/message_protection_codec.h"

namespace medley {

MessageProtection LeastProtection(MessageProtection least,
                                  const std::vector<ClusterDeviceLocation>& devices) {
  for (const ClusterDeviceLocation& device : devices) least = std::max(least, device.message_protection);
  return least;
}

absl::StatusOr<v1::JobSpec> WithProtection(v1::JobSpec spec, MessageProtection least,
                                           const std::vector<ClusterDeviceLocation>& devices) {
  const MessageProtection own = DecodeMessageProtection(spec.communication().message_protection());
  const MessageProtection protection = std::max(own, LeastProtection(least, devices));
  if (protection == MessageProtection::kNone) return spec;
  std::set<std::string> nodes, without;
  for (const ClusterDeviceLocation& device : devices) {
    nodes.insert(device.node);
    if (!device.protects_messages) without.insert(device.node);
  }
  if (nodes.size() > 1 && !without.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("communication.message_protection: ", NameOf(protection),
                     ", by the job, the coordinator or a node, and the agents of ", SomeNames(without),
                     " are of a version that does not know of it; upgrade them, or name other devices"));
  }
  if (without.empty())
    spec.mutable_communication()->set_message_protection(EncodeMessageProtection(protection));
  return spec;
}

}  // namespace medley
