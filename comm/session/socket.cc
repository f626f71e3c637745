#include "comm/session/socket.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace medley {
namespace {

constexpr int kBacklog = 1024;

struct SocketAddress {
  sockaddr_storage storage = {};
  socklen_t size = 0;
  sockaddr* raw() { return reinterpret_cast<sockaddr*>(&storage); }
};

SocketAddress Translate(const Endpoint& endpoint) {
  SocketAddress address;
  if (endpoint.is_v6) {
    auto& v6 = reinterpret_cast<sockaddr_in6&>(address.storage);
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(endpoint.port);
    std::memcpy(&v6.sin6_addr, endpoint.ip.data(), 16);
    address.size = sizeof(v6);
  } else {
    auto& v4 = reinterpret_cast<sockaddr_in&>(address.storage);
    v4.sin_family = AF_INET;
    v4.sin_port = htons(endpoint.port);
    std::memcpy(&v4.sin_addr, endpoint.ip.data(), 4);
    address.size = sizeof(v4);
  }
  return address;
}

// "connection refused"
absl::Status Broken(int error) { return absl::UnavailableError(absl::AsciiStrToLower(std::strerror(error))); }

Descriptor NewSocket(const Endpoint& endpoint) {
  return Descriptor(
      socket(endpoint.is_v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

}  // namespace

Descriptor::~Descriptor() {
  if (value_ >= 0) close(value_);
}

absl::StatusOr<Descriptor> ListenOn(Endpoint& endpoint) {
  const auto failed = [&] {
    return absl::UnavailableError(
        absl::StrCat("listening on ", endpoint.ToString(), ": ", std::strerror(errno)));
  };
  Descriptor listener = NewSocket(endpoint);
  if (listener.get() < 0) return failed();
  const int on = 1;
  if (endpoint.is_v6) setsockopt(listener.get(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
  SocketAddress address = Translate(endpoint);
  if (bind(listener.get(), address.raw(), address.size) != 0 || listen(listener.get(), kBacklog) != 0 ||
      getsockname(listener.get(), address.raw(), &address.size) != 0) {
    return failed();
  }
  endpoint.port = ntohs(endpoint.is_v6 ? reinterpret_cast<sockaddr_in6&>(address.storage).sin6_port
                                       : reinterpret_cast<sockaddr_in&>(address.storage).sin_port);
  return listener;
}

absl::StatusOr<Descriptor> BeginConnect(const Endpoint& endpoint) {
  Descriptor connecting = NewSocket(endpoint);
  if (connecting.get() < 0) return Broken(errno);
  SocketAddress address = Translate(endpoint);
  if (connect(connecting.get(), address.raw(), address.size) != 0 && errno != EINPROGRESS)
    return Broken(errno);
  return connecting;
}

absl::StatusOr<Descriptor> AcceptFrom(const Descriptor& listener) {
  const int accepted = accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (accepted >= 0) return Descriptor(accepted);
  if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
    return absl::ResourceExhaustedError(std::strerror(errno));
  }
  return Descriptor();  // nobody, or somebody who is gone already
}

void Prepare(const Descriptor& socket, absl::Duration silence_limit) {
  const int on = 1;
  setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  const auto milliseconds = static_cast<unsigned int>(absl::ToInt64Milliseconds(silence_limit));
  setsockopt(socket.get(), IPPROTO_TCP, TCP_USER_TIMEOUT, &milliseconds, sizeof(milliseconds));
}

absl::Status SocketError(const Descriptor& socket) {
  int error = 0;
  socklen_t size = sizeof(error);
  if (getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
  return error == 0 ? absl::OkStatus() : Broken(error);
}

absl::Status SendFrom(const Descriptor& socket, std::string& bytes) {
  size_t sent = 0;
  while (sent < bytes.size()) {
    const ssize_t now = send(socket.get(), bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (now < 0 && errno == EINTR) continue;
    if (now < 0 && errno != EAGAIN) return Broken(errno);
    if (now < 0) break;
    sent += static_cast<size_t>(now);
  }
  bytes.erase(0, sent);
  return absl::OkStatus();
}

absl::StatusOr<ReadResult> ReadInto(const Descriptor& socket, size_t limit_bytes, std::string& bytes) {
  char buffer[4096];
  size_t total = 0;
  while (total < limit_bytes) {
    const ssize_t now = recv(socket.get(), buffer, std::min(sizeof(buffer), limit_bytes - total), 0);
    if (now == 0) return ReadResult::kEnd;
    if (now < 0 && errno == EINTR) continue;
    if (now < 0 && errno == EAGAIN) return ReadResult::kAll;
    if (now < 0) return Broken(errno);
    bytes.append(buffer, static_cast<size_t>(now));
    total += static_cast<size_t>(now);
    // A short read has emptied the socket: a last look would mostly find nothing, and epoll would tell.
    if (static_cast<size_t>(now) < sizeof(buffer) && total < limit_bytes) return ReadResult::kAll;
  }
  return ReadResult::kMore;
}

}  // namespace medley
