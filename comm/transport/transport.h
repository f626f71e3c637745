#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

namespace medley {

// What a message is, beside who sends it. Two messages of one (peer, tag) arrive in the order they were sent.
struct MessageTag {
  enum class Kind : uint8_t { kActivation = 1, kGradient = 2, kReduce = 3, kScalars = 4, kProbe = 5 };
  Kind kind = Kind::kProbe;
  uint16_t channel = 0;   // gradient slice, or 0
  uint32_t sequence = 0;  // micro-batch, or ring step; < 2^20
};

// A send or a receive under way. Destroying it cancels what is not done; afterwards the bytes
// may be freed. Wait may be called from any one thread. Must not outlive its Transport.
//
// Cancelling is exact for a receive whose message has not begun to arrive: a later receive gets that message.
// Otherwise the peer may already be at work on the bytes; then the destructor gives the transfer a short time
// (a transport's option) to finish, and if it does not, the whole transport fails with Cancelled, because
// that is the only way to be sure that nothing touches the bytes again.
class Transfer {
 public:
  virtual ~Transfer() = default;
  // Blocks until done. Repeats its answer when called again.
  //   Unavailable        the peer is known to be gone; names it.
  //   DeadlineExceeded   not done at `deadline`; names peer, tag and size. The transfer goes on.
  //   Internal           the message had another size than the receive; names both.
  //   Cancelled          the transport was closed.
  virtual absl::Status Wait(absl::Time deadline) = 0;
};

// Point-to-point messages between the ranks of one epoch: 0 .. size()-1.
// Threading: every method from any thread. Nothing blocks but Wait.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // `bytes` must stay alive and unchanged until the transfer is done or destroyed. Done means that the bytes
  // may be used again, not that the peer has received them.
  // InvalidArgument: no such peer, or the peer is this rank, or a tag field is out of range.
  virtual absl::StatusOr<std::unique_ptr<Transfer>> Send(int peer, MessageTag tag,
                                                         absl::Span<const std::byte> bytes) = 0;
  // `bytes` must be exactly as large as the message, and alive as for Send. Receives of one (peer, tag) take
  // messages in the order in which they were posted. A message that arrived before its sender went is
  // received.
  // InvalidArgument: as for Send.
  virtual absl::StatusOr<std::unique_ptr<Transfer>> Receive(int peer, MessageTag tag,
                                                            absl::Span<std::byte> bytes) = 0;

  // Fails every transfer under way and to come with Cancelled(reason). Idempotent; does not block.
  virtual void Abort(const std::string& reason) = 0;
};

}  // namespace medley
