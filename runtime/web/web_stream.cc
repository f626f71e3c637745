#include "runtime/web/web_stream.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdlib>

#include "runtime/base/clock.h"

namespace medley {
namespace {

using Outcome = WebConnection::Outcome;

thread_local WebStream* current = nullptr;

void Describe(const sockaddr_storage& address, socklen_t size, std::string& ip, int& port) {
  char host[NI_MAXHOST] = {}, service[NI_MAXSERV] = {};
  if (getnameinfo(reinterpret_cast<const sockaddr*>(&address), size, host, sizeof(host), service,
                  sizeof(service), NI_NUMERICHOST | NI_NUMERICSERV) != 0)
    return;
  ip = host;
  port = std::atoi(service);
}

}  // namespace

WebStream::WebStream(WebConnection& connection) : connection_(connection), began_(Now()) { current = this; }
WebStream::~WebStream() { current = nullptr; }
WebStream& WebStream::Current() { return *current; }

bool WebStream::is_readable() const { return connection_.IsOpen(); }

bool WebStream::is_writable() const {
  pollfd room{.fd = connection_.socket(), .events = POLLOUT, .revents = 0};
  return connection_.IsOpen() &&
         poll(&room, 1, static_cast<int>(absl::ToInt64Milliseconds(kSilenceLimit))) > 0;
}

ssize_t WebStream::read(char* bytes, size_t size) {
  const absl::Time slowest =
      began_ + kSilenceLimit + absl::Seconds(static_cast<double>(read_bytes_) / kLeastBytesPerSecond);
  const absl::Time deadline = std::min(slowest, Now() + kSilenceLimit);
  while (true) {
    size_t done = size;
    const Outcome outcome = connection_.Read(bytes, done);
    if (outcome == Outcome::kDone) {
      read_bytes_ += done;
      return static_cast<ssize_t>(done);
    }
    if (outcome == Outcome::kBlocked && connection_.Await(deadline)) continue;
    ends_ = true;
    was_silent_ = outcome == Outcome::kBlocked;
    return was_silent_ ? -1 : 0;
  }
}

ssize_t WebStream::write(const char* bytes, size_t size) {
  size_t written = 0;
  absl::Time deadline = Now() + kSilenceLimit;
  while (written < size) {
    size_t done = size - written;
    const Outcome outcome = connection_.Write(bytes + written, done);
    if (outcome == Outcome::kDone) {
      written += done;
      deadline = Now() + kSilenceLimit;
    } else if (outcome == Outcome::kEnded || !connection_.Await(deadline)) {
      ends_ = true;
      return -1;
    }
  }
  return static_cast<ssize_t>(written);
}

void WebStream::get_remote_ip_and_port(std::string& ip, int& port) const {
  sockaddr_storage address = {};
  socklen_t size = sizeof(address);
  if (getpeername(connection_.socket(), reinterpret_cast<sockaddr*>(&address), &size) == 0)
    Describe(address, size, ip, port);
}

void WebStream::get_local_ip_and_port(std::string& ip, int& port) const {
  sockaddr_storage address = {};
  socklen_t size = sizeof(address);
  if (getsockname(connection_.socket(), reinterpret_cast<sockaddr*>(&address), &size) == 0)
    Describe(address, size, ip, port);
}

}  // namespace medley
