#include "agent/channel/message_channel.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_format.h"
#include "runtime/base/clock.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

absl::Status Gone() { return absl::UnavailableError("the other end of the channel is gone"); }

// After its length. InvalidArgument: too large.
absl::StatusOr<std::string> Framed(const google::protobuf::MessageLite& message) {
  std::string bytes(4, '\0');
  message.AppendToString(&bytes);
  const size_t size = bytes.size() - 4;
  if (size > MessageChannel::kLargestBytes) {
    return absl::InvalidArgumentError(
        absl::StrFormat("message of %d bytes, at most %d", size, MessageChannel::kLargestBytes));
  }
  for (int i = 0; i < 4; ++i) bytes[i] = static_cast<char>(size >> (8 * i));
  return bytes;
}

}  // namespace

MessageChannel::~MessageChannel() { close(descriptor_); }

absl::Status MessageChannel::Send(const google::protobuf::MessageLite& message) {
  ASSIGN_OR_RETURN(const std::string bytes, Framed(message));
  MutexLock lock(send_mutex_);
  return SendFrom(bytes, 0);
}

absl::Status MessageChannel::TrySend(const google::protobuf::MessageLite& message) {
  ASSIGN_OR_RETURN(const std::string bytes, Framed(message));
  if (!send_mutex_.TryLock()) return absl::UnavailableError("the channel is busy");
  const ssize_t sent = send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  // What was begun must be ended, or the other end reads nonsense.
  const absl::Status status = sent > 0
                                  ? SendFrom(bytes, static_cast<size_t>(sent))
                                  : absl::UnavailableError("the channel is full, or its other end is gone");
  send_mutex_.Unlock();
  return status;
}

void MessageChannel::StopReceiving() { shutdown(descriptor_, SHUT_RD); }

absl::Status MessageChannel::SendFrom(const std::string& bytes, size_t sent) {
  while (sent < bytes.size()) {
    const ssize_t n = send(descriptor_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Gone();
    sent += n;
  }
  return absl::OkStatus();
}

absl::Status MessageChannel::ReadFully(char* to, size_t size) {
  for (size_t got = 0; got < size;) {
    const ssize_t n = read(descriptor_, to + got, size - got);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return Gone();
    got += n;
  }
  return absl::OkStatus();
}

absl::Status MessageChannel::Receive(google::protobuf::MessageLite& message, absl::Time deadline) {
  while (true) {
    const int64_t left_ms =
        deadline == absl::InfiniteFuture()
            ? 60'000
            : std::clamp<int64_t>(absl::ToInt64Milliseconds(deadline - Now()) + 1, 0, 60'000);
    pollfd wait{.fd = descriptor_, .events = POLLIN, .revents = 0};
    const int ready = poll(&wait, 1, static_cast<int>(left_ms));
    if (ready > 0) break;
    if (Now() >= deadline) return absl::DeadlineExceededError("no message arrived");
  }
  unsigned char head[4];
  RETURN_IF_ERROR(ReadFully(reinterpret_cast<char*>(head), 4));
  const uint32_t size = head[0] | head[1] << 8 | head[2] << 16 | static_cast<uint32_t>(head[3]) << 24;
  if (size > kLargestBytes) {
    return absl::DataLossError(absl::StrFormat("a message claims %u bytes, at most %u", size, kLargestBytes));
  }
  std::string bytes(size, '\0');
  RETURN_IF_ERROR(ReadFully(bytes.data(), size));
  if (!message.ParseFromString(bytes))
    return absl::DataLossError("the bytes are not a message of the channel");
  return absl::OkStatus();
}

}  // namespace medley
