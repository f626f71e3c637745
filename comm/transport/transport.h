#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

namespace medley {

// The limits of MessageTag. Numbers beyond them begin again: messages of one (peer, tag) keep their order, so that those
// a thousand apart cannot be taken for each other.
inline constexpr int kMaximumChannels = 1 << 11;
inline constexpr uint32_t kMaximumSequences = 1 << 10;

// What a message is, beside who sends it. Two messages of one (peer, tag) arrive in the order they were sent.
struct MessageTag {
  enum class Kind : uint8_t {
    kActivation = 1,
    kGradient = 2,
    kReduce = 3,
    kScalars = 4,
    kProbe = 5,
    kReshard = 6
  };
  Kind kind = Kind::kProbe;
  uint16_t channel = 0;   // gradient slice, or 0; < kMaximumChannels
  uint32_t sequence = 0;  // micro-batch, or step of a collective; < kMaximumSequences
};

// Where the bytes of a message lie. Beyond kHost only where Transport::Reaches says so.
enum class MemoryType : uint8_t { kHost, kCuda, kRocm };

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
  //   DataLoss           it is not what was sent (comm/protected); names peer and tag.
  //   Cancelled          the transport was closed.
  virtual absl::Status Wait(absl::Time deadline) = 0;
  // Whether Wait would answer at once. Drives progress a little; does not block.
  virtual bool Done() = 0;
};

// Memory prepared for transfers (pinned, registered with the network), until destroyed. Transfers whose bytes
// lie in it need no copy and no registration of their own. Must not outlive its Transport.
class Registration {
 public:
  virtual ~Registration() = default;
};

// What went to and came from one peer, of one kind of message.
struct PeerTraffic {
  int peer = 0;
  MessageTag::Kind kind = MessageTag::Kind::kProbe;
  uint64_t bytes_sent = 0, bytes_received = 0;
  uint64_t messages_sent = 0, messages_received = 0;
  double wait_seconds = 0;  // that threads spent in Wait
  std::string path;         // "tcp", "shared memory", "loopback"
};

// Point-to-point messages between the ranks of one attempt: 0 .. size()-1.
// Threading: every method from any thread. Nothing blocks but Wait.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // Whether messages may be exchanged with `rank`: of a large attempt a transport may know those ranks alone that this
  // one has something to exchange with.
  virtual bool IsPeer(int rank) const { return rank >= 0 && rank < size() && rank != this->rank(); }

  // `bytes` must stay alive and unchanged until the transfer is done or destroyed. Done means that the bytes
  // may be used again, not that the peer has received them.
  // InvalidArgument: it is no peer (IsPeer), or a tag field is out of range, or the memory is of a type that the
  // transport does not reach.
  virtual absl::StatusOr<std::unique_ptr<Transfer>> Send(int peer, MessageTag tag,
                                                         absl::Span<const std::byte> bytes,
                                                         MemoryType memory = MemoryType::kHost) = 0;
  // `bytes` must be exactly as large as the message, and alive as for Send. Receives of one (peer, tag) take
  // messages in the order in which they were posted. A message that arrived before its sender went is
  // received.
  // InvalidArgument: as for Send.
  virtual absl::StatusOr<std::unique_ptr<Transfer>> Receive(int peer, MessageTag tag,
                                                            absl::Span<std::byte> bytes,
                                                            MemoryType memory = MemoryType::kHost) = 0;

  // Fails every transfer under way and to come with Cancelled(reason). Idempotent; does not block.
  virtual void Abort(const std::string& reason) = 0;

  // `peer` is gone, as its watcher found: transfers with it that are not done, and those to come that need
  // it, fail with Unavailable, `why` in their message; what it sent before can still be received. Idempotent,
  // the first reason counts.
  virtual void MarkGone(int peer, const std::string& why) = 0;

  // Whether Send and Receive take such memory as it is.
  virtual bool Reaches(MemoryType memory) const { return memory == MemoryType::kHost; }

  // Whether messages from `peer`, another rank, are copied out of its memory by this process, as it looks for
  // them: then receives posted ahead gain nothing. The same at both ends.
  virtual bool SharesMemory(int peer) const { return false; }

  // Pins `bytes` for transfers. Worth its cost for memory that is used many times. Null inside: there is
  // nothing to prepare. InvalidArgument: as for Send. ResourceExhausted: it cannot be pinned; transfers work
  // all the same.
  virtual absl::StatusOr<std::unique_ptr<Registration>> Register(absl::Span<std::byte> bytes,
                                                                 MemoryType memory = MemoryType::kHost) {
    return std::unique_ptr<Registration>();
  }

  // By peer and kind, of what has happened so far; kinds and peers without a message are left out.
  virtual std::vector<PeerTraffic> Traffic() const { return {}; }
  // Messages that came from other attempts or from nobody known, and were dropped.
  virtual uint64_t DroppedMessages() const { return 0; }
};

}  // namespace medley
