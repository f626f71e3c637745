#include "coordinator/rpc/agent_version.h"

#include <catch2/catch.hpp>

#include "runtime/base/version.h"

namespace medley {
namespace {

TEST_CASE(
    "agents one minor version older or newer may register, others are refused with both versions named") {
  for (const char* agent : {"0.3", "0.2", "0.4", "", "0.3.7", "0.4+git20260131120000.1a2b3c4"})
    CHECK(CheckAgentVersion(agent, "0.3").ok());
  for (const char* agent : {"0.1", "0.5", "1.3", "nonsense", "0", "0.x", "-1.3"}) {
    const absl::Status refused = CheckAgentVersion(agent, "0.3");
    CHECK(absl::IsFailedPrecondition(refused));
    CHECK(refused.message().find(std::string("Medley ") + agent + " and the coordinator 0.3") !=
          std::string::npos);
  }
  CHECK(CheckAgentVersion("", "0.4").message().find("0.2 or older and the coordinator 0.4") !=
        std::string::npos);
  CHECK(CheckAgentVersion(kMedleyVersion, kMedleyVersion).ok());
}

}  // namespace
}  // namespace medley
