#pragma once
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "comm/session/endpoint.h"

namespace medley {

// Owns a file descriptor.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int value) : value_(value) {}
  Descriptor(Descriptor&& other) noexcept : value_(std::exchange(other.value_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }
  ~Descriptor();
  int get() const { return value_; }

 private:
  int value_ = -1;
};

// All sockets here are non-blocking TCP sockets that programs started by this one do not inherit.

// Listens on this address and a port that the system chooses; puts it into `endpoint`. Unavailable: why not.
absl::StatusOr<Descriptor> ListenOn(Endpoint& endpoint);
// Begins to connect: writable once done, for better or worse (see SocketError). Unavailable: fails at once.
absl::StatusOr<Descriptor> BeginConnect(const Endpoint& endpoint);
// The next connection of a listener; a descriptor of -1 if there is none now. ResourceExhausted: no
// descriptors or memory.
absl::StatusOr<Descriptor> AcceptFrom(const Descriptor& listener);
// Small messages at once; what is sent and not acknowledged for so long breaks the connection.
void Prepare(const Descriptor& socket, absl::Duration silence_limit);
// What went wrong with a connection, or OK. Unavailable: "connection refused".
absl::Status SocketError(const Descriptor& socket);

// Sends as much as goes now, and takes that off `bytes`. Unavailable: the connection is broken; says how.
absl::Status SendFrom(const Descriptor& socket, std::string& bytes);
enum class ReadResult {
  kMore,  // there may be more
  kAll,   // there is no more now
  kEnd,   // the other end has closed
};
// Reads what is there, at most `limit_bytes`, and appends it. Unavailable: the connection is broken.
absl::StatusOr<ReadResult> ReadInto(const Descriptor& socket, size_t limit_bytes, std::string& bytes);

}  // namespace medley
