#include "runtime/base/can_listen.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "runtime/base/loopback.h"

namespace medley {
namespace {

// 0, or the system's error number.
int TryToBind(const addrinfo& address) {
  const int descriptor = socket(address.ai_family, address.ai_socktype | SOCK_CLOEXEC, address.ai_protocol);
  if (descriptor < 0) return errno;
  // As servers do: what is left of connections of a former one is not in the way, one that listens is.
  const int yes = 1;
  (void)setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  const int error = bind(descriptor, address.ai_addr, address.ai_addrlen) == 0 ? 0 : errno;
  close(descriptor);
  return error;
}

absl::Status Refusal(const std::string& field, const std::string& address, const std::string& why) {
  return absl::UnavailableError(absl::StrCat(field, ": cannot listen at ", address, why));
}

}  // namespace

absl::Status CheckCanListen(const std::string& field, const std::string& address) {
  const std::string host(absl::StripSuffix(absl::StripPrefix(HostOfAddress(address), "["), "]")),
      port = address.substr(address.rfind(':') + 1);
  addrinfo wanted = {};
  wanted.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(host.c_str(), port.c_str(), &wanted, &found); error != 0)
    return Refusal(field, address, absl::StrCat(": ", gai_strerror(error)));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owned(found, &freeaddrinfo);
  int cause = 0;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    const int error = TryToBind(*one);
    if (error == 0) return absl::OkStatus();
    // A host without IPv6 cannot have ::1 of "localhost", which is not what is wrong.
    if (cause == 0 || error == EADDRINUSE) cause = error;
  }
  return Refusal(field, address, absl::StrCat(": ", std::strerror(cause)));
}

absl::Status CannotListen(const std::string& field, const std::string& address) {
  const absl::Status why = CheckCanListen(field, address);
  return why.ok() ? Refusal(field, address, "; was it in use?") : why;
}

}  // namespace medley
