#include "coordinator/rpc/agent_version.h"

#include <cstdlib>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace medley {
namespace {

constexpr char kBeforeAgentsSaid[] = "0.2";

// Major and minor; what follows, as in "0.3.1" or "0.3+git", makes no difference.
std::optional<std::pair<int, int>> Parse(const std::string& version) {
  const std::vector<absl::string_view> parts = absl::StrSplit(version, absl::ByAnyChar(".+~-"));
  int major = 0, minor = 0;
  if (parts.size() < 2 || !absl::SimpleAtoi(parts[0], &major) || !absl::SimpleAtoi(parts[1], &minor))
    return {};
  return std::pair(major, minor);
}

}  // namespace

absl::Status CheckAgentVersion(const std::string& agent, const std::string& coordinator) {
  const auto theirs = Parse(agent.empty() ? kBeforeAgentsSaid : agent);
  const auto ours = Parse(coordinator);
  if (theirs && ours && theirs->first == ours->first && std::abs(theirs->second - ours->second) <= 1)
    return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "the agent is Medley ", agent.empty() ? "0.2 or older" : agent, " and the coordinator ", coordinator,
      ": they go together where they are at most one minor version apart; upgrade the older one"));
}

}  // namespace medley
