#include "coordinator/orchestrator/attempt_secret.h"

#include <sys/random.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace medley {
namespace {

constexpr size_t kSecretBytes = 32;

}  // namespace

absl::StatusOr<std::string> NewAttemptSecret() {
  std::string secret(kSecretBytes, '\0');
  size_t filled = 0;
  while (filled < secret.size()) {
    const ssize_t got = getrandom(secret.data() + filled, secret.size() - filled, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0)
      return absl::UnavailableError(
          absl::StrCat("no random bytes for an attempt's secret: ", std::strerror(errno)));
    filled += static_cast<size_t>(got);
  }
  return secret;
}

}  // namespace medley
