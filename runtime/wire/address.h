#pragma once
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace medley {

// Where the coordinator listens unless its configuration says otherwise.
constexpr int kCoordinatorPort = 7070;

// Whether port 0, which stands for any free one, may be given: for listening, not for dialling.
enum class AnyPort { kRefused, kAllowed };

// `text` as "HOST:PORT": with `default_port` if it has none. HOST is a name, an IPv4 address or an IPv6
// address in brackets, "[::1]:7070".
// InvalidArgument "FIELD: \"TEXT\": what is wrong", `field` being what the user set ("--coordinator"): empty,
// a URL ("http://..."), a path or blanks, an IPv6 address without brackets, a port that is none.
absl::StatusOr<std::string> CompleteAddress(absl::string_view field, absl::string_view text, int default_port,
                                            AnyPort any_port = AnyPort::kRefused);

}  // namespace medley
