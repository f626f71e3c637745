#pragma once
#include <string>

#include "absl/strings/string_view.h"

namespace medley {

// The id of a request: who asks may choose one, and it goes with all that is done for it.

// The key under which it stands in the metadata of gRPC; of HTTP it is the header X-Request-Id.
inline constexpr char kRequestIdKey[] = "x-request-id";

// 1 to 64 letters, digits, dots, underscores and hyphens.
bool IsRequestId(absl::string_view text);

// `given` if it is one; else one that nobody has yet.
std::string RequestIdOr(absl::string_view given);

// That of the request that this thread serves; empty: it serves none.
const std::string& CurrentRequestId();

// While it lives, this thread serves the request. Those of one thread end in the opposite order.
class RequestScope {
 public:
  explicit RequestScope(std::string id);
  ~RequestScope();
  RequestScope(const RequestScope&) = delete;
  RequestScope& operator=(const RequestScope&) = delete;

 private:
  std::string before_;
};

}  // namespace medley
