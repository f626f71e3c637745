#include "cli/connection_error.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cli/text_table.h"

namespace medley {
namespace {

constexpr char kWhatToDo[] = "Start one (medley up), or set --coordinator or MEDLEY_COORDINATOR";

// What TLS says, and what it means.
constexpr struct {
  const char* said;
  const char* means;
} kTlsCauses[] = {
    {"wrong version number", "it does not speak TLS, and --certificates would have it do so"},
    {"certificate verify failed", "its certificate is not by the authority of --certificates"},
    {"unknown ca", "it does not know the authority of --certificates"},
};

// As operating systems and gRPC say it; the first that is found.
constexpr const char* kCauses[] = {"connection refused",       "connection timed out", "no route to host",
                                   "network is unreachable",   "host is unreachable",  "permission denied",
                                   "connection reset by peer", "broken pipe",          "socket closed"};
// gRPC's, of a connection on which nothing comes any more.
constexpr char kSilent[] = "keepalive watchdog timeout";
// What a server with TLS does when somebody speaks without.
constexpr char kClosed[] = "socket closed";

}  // namespace

bool IsSilence(const std::string& transport_message) { return absl::StrContains(transport_message, kSilent); }

std::string DescribeUnreachable(const std::string& address, const std::string& transport_message) {
  if (absl::StrContains(transport_message, "DNS resolution failed")) {
    const std::string host = address.substr(0, address.rfind(':'));
    return absl::StrCat("no coordinator at ", address, ": host \"", host,
                        "\" is unknown. Set --coordinator or ", "MEDLEY_COORDINATOR");
  }
  if (IsSilence(transport_message)) {
    return absl::StrCat("the coordinator at ", address,
                        " no longer answers; --timeout SECONDS waits longer for a sign of it");
  }
  const std::string lower = absl::AsciiStrToLower(transport_message);
  for (const auto& cause : kTlsCauses) {
    if (absl::StrContains(lower, cause.said))
      return absl::StrCat("no coordinator at ", address, ": ", cause.means);
  }
  for (const char* cause : kCauses) {
    if (!absl::StrContains(lower, cause)) continue;
    return absl::StrCat(
        "no coordinator at ", address, ": ", cause, ". ", kWhatToDo,
        absl::EndsWith(lower, kClosed) ? ". Where it asks for certificates, --certificates shows yours" : "");
  }
  // Nothing known: what stands before the first detail, or of a chain of causes the last.
  absl::string_view rest = transport_message;
  rest = rest.substr(0, rest.find_first_of("{"));
  if (absl::StartsWith(rest, "failed to connect")) {
    const size_t last = rest.rfind(": ");
    rest = last == absl::string_view::npos ? "the connection failed" : rest.substr(last + 2);
  }
  const std::string text = Printable(std::string(absl::StripAsciiWhitespace(rest)));
  return absl::StrCat("no coordinator at ", address, text.empty() ? "" : ": ", text, ". ", kWhatToDo);
}

}  // namespace medley
