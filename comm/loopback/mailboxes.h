#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "comm/transport/transport.h"
#include "runtime/base/mutex.h"

namespace medley {

class Mailboxes;

// Where a message waits: its receiver, and the wire tag, which holds its sender.
using MailboxAddress = std::pair<int, uint64_t>;

// A transfer. Sends are born done; receives are known to their mailbox until they are done.
class LoopbackTransfer final : public Transfer {
 public:
  struct Key {
    MailboxAddress address;
    int owner = 0;
    int peer = 0;
    MessageTag tag;
  };
  LoopbackTransfer(Mailboxes& mailboxes, Key key, absl::Span<std::byte> bytes)
      : mailboxes_(mailboxes), key_(key), bytes_(bytes) {}
  ~LoopbackTransfer() override;

  absl::Status Wait(absl::Time deadline) override;
  bool Done() override;

 private:
  friend class Mailboxes;

  Mailboxes& mailboxes_;
  const Key key_;
  const absl::Span<std::byte> bytes_;
  bool done_ = false;  // this and the rest guarded by Mailboxes::mutex
  absl::Status status_;
  ConditionVariable changed_;
};

// The state that all ranks of a LoopbackFabric share: a mailbox for each (receiver, wire tag), and what each
// rank knows. Thread-safe.
class Mailboxes {
 public:
  explicit Mailboxes(int size) : ranks_(size) {}
  int size() const { return static_cast<int>(ranks_.size()); }

  // False if `rank` is here already.
  bool Join(int rank);
  void Leave(int rank);

  // Start `transfer`, which finishes it at once where possible.
  void Send(LoopbackTransfer& transfer, absl::Span<const std::byte> bytes);
  void Receive(LoopbackTransfer& transfer);

  void Abort(int rank, const std::string& reason);
  // `owner` learns that `peer` is gone.
  void MarkGone(int owner, int peer, const std::string& why);
  std::vector<PeerTraffic> Traffic(int rank) const;

 private:
  friend class LoopbackTransfer;
  struct Rank {
    bool joined = false;
    absl::Status aborted;             // not OK once aborted
    std::map<int, std::string> gone;  // why, by peer
    std::map<std::pair<int, MessageTag::Kind>, PeerTraffic> traffic;
  };
  struct Mailbox {
    std::deque<std::vector<std::byte>> messages;  // at most one of the two is not empty
    std::deque<LoopbackTransfer*> receives;
  };

  void Withdraw(LoopbackTransfer& transfer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Why a transfer between these two cannot be; OK if it can.
  absl::Status Objection(int owner, int peer) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Finish(LoopbackTransfer& transfer, absl::Status status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Fill(LoopbackTransfer& receive, absl::Span<const std::byte> message)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Finishes the receives of `owner` for which an objection has come up.
  void FailHopeless(int owner) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  PeerTraffic& TrafficOf(const LoopbackTransfer::Key& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  std::vector<Rank> ranks_;  // guarded by mutex_, save its size
  std::map<MailboxAddress, Mailbox> boxes_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace medley
