#pragma once
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "google/protobuf/message_lite.h"
#include "runtime/base/mutex.h"

namespace medley {

// Messages over a connected stream socket, each after its length (4 bytes, little-endian). Owns the
// descriptor. Threading: sends from any thread; receives from one at a time.
class MessageChannel {
 public:
  explicit MessageChannel(int descriptor) : descriptor_(descriptor) {}
  ~MessageChannel();
  MessageChannel(const MessageChannel&) = delete;
  MessageChannel& operator=(const MessageChannel&) = delete;

  // Blocks while the socket is full. Unavailable: the other end is gone. InvalidArgument: over kLargestBytes.
  absl::Status Send(const google::protobuf::MessageLite& message);

  // The same for a small message that may be lost: returns at once. Unavailable, too: the socket is full, or
  // somebody sends.
  absl::Status TrySend(const google::protobuf::MessageLite& message);

  // What is received ends here; what was sent to this end already may still be read. From any thread.
  void StopReceiving();

  // Blocks for the next message.
  //   DeadlineExceeded  none began before `deadline`; nothing was read.
  //   Unavailable       the other end is gone.
  //   DataLoss          the length is over kLargestBytes or the bytes are no such message; the channel is of
  //                     no use.
  absl::Status Receive(google::protobuf::MessageLite& message, absl::Time deadline);

  static constexpr uint32_t kLargestBytes = 64u << 20;

 private:
  absl::Status ReadFully(char* to, size_t size);
  absl::Status SendFrom(const std::string& bytes, size_t sent) ABSL_EXCLUSIVE_LOCKS_REQUIRED(send_mutex_);

  const int descriptor_;
  Mutex send_mutex_;
};

}  // namespace medley
