#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "comm/protected/message_seal.h"
#include "comm/protected/receive_order.h"
#include "comm/transport/transport.h"
#include "runtime/base/mutex.h"

namespace medley {

// A transport whose messages between hosts are protected: a receive hands on what was sent with its tag, in its place among the
// messages of that tag, or fails. Ranks that share memory (Transport::SharesMemory of the transport around which this one is)
// exchange messages as they are. All ranks of an attempt have the same protection.
//
// Holds Transport's contract over any transport that does; beside its errors, Transfer::Wait of a receive:
//   DataLoss   the message was altered, cut, replayed, dropped or reordered on its way, or sealed with another key; names peer and
//              tag. The attempt is over: what came after it is not to be trusted either.
// After any error but DeadlineExceeded the bytes of the receive are zeros.
//
// A message is two of the transport around which this is: its bytes, encrypted where that is asked for, then a trailer of
// MessageSeal. Receives are opened where they land and sends with a checksum go as they lie; a send that is encrypted has a copy
// until it is done, made by the thread that calls Send. Reaches memory of the host alone; that of devices goes through comm/staging.
//
// Thread-safe, without a thread of its own.
class ProtectedTransport final : public Transport {
 public:
  struct Options {
    MessageProtection protection = MessageProtection::kEncryption;  // not kNone
    std::string secret;  // of the attempt; of encryption, at least 16 bytes
    uint64_t attempt = 0;
    // That a destroyed receive waits for the rest of a message whose first part is there, before the transport gives up.
    absl::Duration cancel_grace = absl::Milliseconds(200);
  };
  // `inner` outlives it. InvalidArgument: the secret is too short; names its size and never more of it.
  static absl::StatusOr<std::unique_ptr<ProtectedTransport>> Create(Transport& inner, const Options& options);
  // Every Transfer must be destroyed before.
  ~ProtectedTransport() override;

  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  bool IsPeer(int rank) const override { return inner_.IsPeer(rank); }
  absl::StatusOr<std::unique_ptr<Transfer>> Send(int peer, MessageTag tag, absl::Span<const std::byte> bytes,
                                                 MemoryType memory = MemoryType::kHost) override;
  absl::StatusOr<std::unique_ptr<Transfer>> Receive(int peer, MessageTag tag, absl::Span<std::byte> bytes,
                                                    MemoryType memory = MemoryType::kHost) override;
  void Abort(const std::string& reason) override { inner_.Abort(reason); }
  void MarkGone(int peer, const std::string& why) override { inner_.MarkGone(peer, why); }
  bool Reaches(MemoryType memory) const override { return memory == MemoryType::kHost; }
  bool SharesMemory(int peer) const override { return inner_.SharesMemory(peer); }
  absl::StatusOr<std::unique_ptr<Registration>> Register(absl::Span<std::byte> bytes,
                                                         MemoryType memory = MemoryType::kHost) override;
  // Of messages and bytes as they were given, without what protects them.
  std::vector<PeerTraffic> Traffic() const override;
  uint64_t DroppedMessages() const override { return inner_.DroppedMessages(); }

  // Of messages with `peer`, once it is connected.
  MessageProtection ProtectionWith(int peer) const {
    return inner_.SharesMemory(peer) ? MessageProtection::kNone : options_.protection;
  }

 private:
  friend class ProtectedReceive;
  // The messages of one tag to, and from, one peer.
  struct Stream {
    Mutex mutex;  // held while a message gets its number and is started
    uint64_t sent ABSL_GUARDED_BY(mutex) = 0;
    ReceiveOrder received ABSL_GUARDED_BY(mutex);
  };
  // What is kept of a peer whose messages are protected.
  struct Link {
    Link(const Options& options, int rank, int peer);
    Stream& StreamOf(MessageTag tag);
    const MessageSeal sending, receiving;
    Mutex mutex;
    std::unordered_map<uint64_t, std::unique_ptr<Stream>> streams ABSL_GUARDED_BY(mutex);  // by PackTag
  };
  ProtectedTransport(Transport& inner, const Options& options) : inner_(inner), options_(options) {}
  absl::Status Check(int peer, MessageTag tag, MemoryType memory) const;
  // Null: messages go as they are.
  Link* LinkWith(int peer);

  Transport& inner_;
  const Options options_;
  Mutex mutex_;
  std::unordered_map<int, std::unique_ptr<Link>> links_ ABSL_GUARDED_BY(mutex_);  // by peer
};

}  // namespace medley
