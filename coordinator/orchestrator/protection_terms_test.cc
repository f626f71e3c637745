#include "coordinator/orchestrator/protection_terms.h"

#include <catch2/catch.hpp>

namespace medley {
namespace {

ClusterDeviceLocation DeviceOf(const std::string& node, MessageProtection least, bool protects = true) {
  ClusterDeviceLocation device;
  device.node = node;
  device.message_protection = least;
  device.protects_messages = protects;
  return device;
}

v1::JobSpec Asking(v1::MessageProtection protection) {
  v1::JobSpec spec;
  if (protection != v1::MESSAGE_PROTECTION_UNSPECIFIED)
    spec.mutable_communication()->set_message_protection(protection);
  return spec;
}

constexpr auto kNone = MessageProtection::kNone, kChecksum = MessageProtection::kChecksum,
               kEncryption = MessageProtection::kEncryption;

TEST_CASE("the greatest counts of what the job, the coordinator and the nodes ask for") {
  struct Case {
    v1::MessageProtection job;
    MessageProtection coordinator, node;
    v1::MessageProtection effective;
  };
  for (const Case& one : {
           Case{v1::MESSAGE_PROTECTION_UNSPECIFIED, kNone, kNone, v1::MESSAGE_PROTECTION_UNSPECIFIED},
           Case{v1::MESSAGE_PROTECTION_NONE, kNone, kNone, v1::MESSAGE_PROTECTION_NONE},
           Case{v1::MESSAGE_PROTECTION_CHECKSUM, kNone, kNone, v1::MESSAGE_PROTECTION_CHECKSUM},
           Case{v1::MESSAGE_PROTECTION_NONE, kEncryption, kChecksum, v1::MESSAGE_PROTECTION_ENCRYPTION},
           Case{v1::MESSAGE_PROTECTION_CHECKSUM, kNone, kEncryption, v1::MESSAGE_PROTECTION_ENCRYPTION},
           Case{v1::MESSAGE_PROTECTION_ENCRYPTION, kChecksum, kNone, v1::MESSAGE_PROTECTION_ENCRYPTION},
       }) {
    CAPTURE(one.job, NameOf(one.coordinator), NameOf(one.node));
    const auto spec =
        WithProtection(Asking(one.job), one.coordinator, {DeviceOf("a", kNone), DeviceOf("b", one.node)});
    REQUIRE(spec.ok());
    CHECK(spec->communication().message_protection() == one.effective);
  }
}

TEST_CASE("nodes whose agents do not know of it are refused by name, unless there is but one node") {
  const std::vector<ClusterDeviceLocation> devices = {DeviceOf("a", kNone), DeviceOf("old", kNone, false)};
  CHECK(WithProtection(Asking(v1::MESSAGE_PROTECTION_NONE), kNone, devices).ok());
  const absl::Status refused =
      WithProtection(Asking(v1::MESSAGE_PROTECTION_CHECKSUM), kNone, devices).status();
  CHECK(absl::IsFailedPrecondition(refused));
  CHECK_THAT(std::string(refused.message()), Catch::Contains("communication.message_protection: checksum") &&
                                                 Catch::Contains("agents of old are"));
  CHECK(absl::IsFailedPrecondition(
      WithProtection(Asking(v1::MESSAGE_PROTECTION_NONE), kEncryption, devices).status()));
  // Its messages do not leave the host.
  CHECK(WithProtection(Asking(v1::MESSAGE_PROTECTION_CHECKSUM), kNone, {devices[1]}).ok());
}

}  // namespace
}  // namespace medley
