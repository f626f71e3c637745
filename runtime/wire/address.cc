#include "runtime/wire/address.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace medley {
namespace {

constexpr int kLargestPort = 65535;

// A host's name or the inside of an IPv6 address's brackets.
bool IsHost(absl::string_view host, absl::string_view more) {
  return !host.empty() && std::all_of(host.begin(), host.end(), [&](char c) {
    return absl::ascii_isalnum(c) || more.find(c) != absl::string_view::npos;
  });
}

}  // namespace

absl::StatusOr<std::string> CompleteAddress(absl::string_view field, absl::string_view text, int default_port,
                                            AnyPort any_port) {
  const auto refuse = [&](const auto&... what) {
    return absl::InvalidArgumentError(absl::StrCat(field, ": \"", absl::CHexEscape(text), "\": ", what...));
  };
  if (text.empty()) return refuse("is empty; write HOST:PORT");
  if (const size_t scheme = text.find("://"); scheme != absl::string_view::npos) {
    return refuse("write HOST:PORT, without ", absl::CHexEscape(text.substr(0, scheme + 3)));
  }
  absl::string_view host = text, port;
  bool has_port = false;
  const bool brackets = text[0] == '[';
  if (brackets) {
    const size_t end = text.find(']');
    if (end == absl::string_view::npos) return refuse("has \"[\" without \"]\"");
    host = text.substr(1, end - 1);
    port = text.substr(end + 1);
    has_port = !port.empty();
    if (has_port && port[0] != ':') return refuse("write [HOST]:PORT");
    if (has_port) port.remove_prefix(1);
  } else if (const size_t colon = text.find(':'); colon != absl::string_view::npos) {
    if (text.find(':', colon + 1) != absl::string_view::npos) {
      return refuse("an IPv6 address stands in brackets, as in [::1]:", default_port);
    }
    host = text.substr(0, colon);
    port = text.substr(colon + 1);
    has_port = true;
  }
  if (!IsHost(host, brackets ? ":.%" : "-_.")) return refuse("has no valid host; write HOST:PORT");
  int number = default_port;
  const bool digits = port.find_first_not_of("0123456789") == absl::string_view::npos;
  const int least = any_port == AnyPort::kAllowed ? 0 : 1;
  if (has_port && (port.empty() || !digits || !absl::SimpleAtoi(port, &number) || number < least ||
                   number > kLargestPort)) {
    return refuse("the port must be in [", least, ", ", kLargestPort, "]");
  }
  return brackets ? absl::StrCat("[", host, "]:", number) : absl::StrCat(host, ":", number);
}

}  // namespace medley
