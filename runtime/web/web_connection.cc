#include "runtime/web/web_connection.h"

#include <fcntl.h>
#include <openssl/err.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "runtime/base/clock.h"

namespace medley {
namespace {

using Outcome = WebConnection::Outcome;

constexpr size_t kMostAtOnce = size_t{1} << 20;

}  // namespace

WebConnection::WebConnection(int socket, SSL_CTX* tls)
    : socket_(socket), tls_(tls == nullptr ? nullptr : SSL_new(tls)) {
  fcntl(socket_, F_SETFL, fcntl(socket_, F_GETFL) | O_NONBLOCK);
  if (tls_ == nullptr) return;
  SSL_set_fd(tls_.get(), socket_);
  SSL_set_accept_state(tls_.get());
  SSL_set_mode(tls_.get(), SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
}

WebConnection::~WebConnection() { close(socket_); }

Outcome WebConnection::OutcomeOf(int result) {
  if (result > 0) return Outcome::kDone;
  if (tls_ == nullptr)
    return result < 0 && (errno == EAGAIN || errno == EINTR) ? Outcome::kBlocked : Outcome::kEnded;
  const int error = SSL_get_error(tls_.get(), result);
  if (error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE) return Outcome::kEnded;
  events_ = error == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT;
  return Outcome::kBlocked;
}

Outcome WebConnection::Handshake() {
  ERR_clear_error();
  return OutcomeOf(SSL_do_handshake(tls_.get()));
}

Outcome WebConnection::Read(char* bytes, size_t& size) {
  if (!given_back_.empty()) {
    size = std::min(size, given_back_.size());
    std::memcpy(bytes, given_back_.data(), size);
    given_back_.erase(0, size);
    return Outcome::kDone;
  }
  events_ = POLLIN;
  ERR_clear_error();
  const int room = static_cast<int>(std::min(size, kMostAtOnce));
  const int result = tls_ == nullptr ? static_cast<int>(recv(socket_, bytes, static_cast<size_t>(room), 0))
                                     : SSL_read(tls_.get(), bytes, room);
  size = static_cast<size_t>(std::max(0, result));
  return OutcomeOf(result);
}

Outcome WebConnection::Write(const char* bytes, size_t& size) {
  events_ = POLLOUT;
  ERR_clear_error();
  const int most = static_cast<int>(std::min(size, kMostAtOnce));
  const int result = tls_ == nullptr
                         ? static_cast<int>(send(socket_, bytes, static_cast<size_t>(most), MSG_NOSIGNAL))
                         : SSL_write(tls_.get(), bytes, most);
  size = static_cast<size_t>(std::max(0, result));
  return OutcomeOf(result);
}

void WebConnection::EndWriting() {
  ERR_clear_error();
  if (tls_ != nullptr && SSL_is_init_finished(tls_.get())) (void)SSL_shutdown(tls_.get());
  shutdown(socket_, SHUT_WR);
}

bool WebConnection::Await(absl::Time deadline) const {
  pollfd waits{.fd = socket_, .events = events_, .revents = 0};
  while (true) {
    const absl::Duration left = std::max(absl::ZeroDuration(), deadline - Now());
    const int found =
        poll(&waits, 1, static_cast<int>(absl::ToInt64Milliseconds(absl::Ceil(left, absl::Milliseconds(1)))));
    if (found > 0) return true;
    if (found < 0 && errno != EINTR) return true;  // what comes next says why
    if (Now() >= deadline) return false;
  }
}

bool WebConnection::IsOpen() {
  char byte = 0;
  if (tls_ == nullptr) {
    const ssize_t seen = recv(socket_, &byte, 1, MSG_PEEK);
    return seen > 0 || (seen < 0 && (errno == EAGAIN || errno == EINTR));
  }
  ERR_clear_error();
  return OutcomeOf(SSL_peek(tls_.get(), &byte, 1)) != Outcome::kEnded;
}

}  // namespace medley
