#include "comm/loopback/loopback_fabric.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "comm/transport/message_tag.h"
#include "runtime/base/mutex.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

[[noreturn]] void Stop(const std::string& why) {
  std::fprintf(stderr, "LoopbackFabric: %s\n", why.c_str());
  std::abort();
}

// Where a message waits: its receiver, and the wire tag, which holds its sender.
using Address = std::pair<int, uint64_t>;

}  // namespace

// A transfer. Sends are born done; receives are known to their mailbox until they are done.
class LoopbackFabric::Pending final : public Transfer {
 public:
  struct Key {
    Address address;
    int owner = 0;
    int peer = 0;
    MessageTag tag;
  };
  Pending(Mailboxes& mailboxes, Key key, absl::Span<std::byte> bytes)
      : mailboxes_(mailboxes), key_(key), bytes_(bytes) {}
  ~Pending() override;

  absl::Status Wait(absl::Time deadline) override;

 private:
  friend class Mailboxes;
  friend class Member;
  void Finish(absl::Status status) {
    done_ = true;
    status_ = std::move(status);
    changed_.NotifyAll();
  }
  void Take(absl::Span<const std::byte> message);

  Mailboxes& mailboxes_;
  const Key key_;
  const absl::Span<std::byte> bytes_;
  bool done_ = false;  // this and the rest guarded by Mailboxes::mutex
  absl::Status status_;
  ConditionVariable changed_;
};

// The state that all ranks share.
class LoopbackFabric::Mailboxes {
 public:
  explicit Mailboxes(int size) : ranks(size) {}

  struct Rank {
    bool joined = false;
    bool gone = false;
    absl::Status aborted;  // not OK once aborted
  };
  struct Mailbox {
    std::deque<std::vector<std::byte>> messages;  // at most one of the two is not empty
    std::deque<Pending*> receives;
  };

  // Why a transfer between these two cannot be; OK if it can.
  absl::Status Objection(int owner, int peer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    if (!ranks[owner].aborted.ok()) return ranks[owner].aborted;
    if (ranks[peer].gone) return absl::UnavailableError(absl::StrCat("rank ", peer, " is gone"));
    return absl::OkStatus();
  }

  void Deliver(const Address& address, absl::Span<const std::byte> bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    Mailbox& mailbox = boxes[address];
    if (mailbox.receives.empty()) {
      mailbox.messages.emplace_back(bytes.begin(), bytes.end());
      return;
    }
    mailbox.receives.front()->Take(bytes);
    mailbox.receives.pop_front();
    if (mailbox.receives.empty()) boxes.erase(address);
  }

  void Post(Pending& receive) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    const absl::Status& aborted = ranks[receive.key_.owner].aborted;
    if (!aborted.ok()) return receive.Finish(aborted);
    const auto found = boxes.find(receive.key_.address);
    if (found != boxes.end() && !found->second.messages.empty()) {
      receive.Take(found->second.messages.front());
      found->second.messages.pop_front();
      if (found->second.messages.empty()) boxes.erase(found);
      return;
    }
    const absl::Status objection = Objection(receive.key_.owner, receive.key_.peer);
    if (!objection.ok()) return receive.Finish(objection);
    boxes[receive.key_.address].receives.push_back(&receive);
  }

  void Withdraw(Pending& receive) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    if (receive.done_) return;
    const auto found = boxes.find(receive.key_.address);
    std::erase(found->second.receives, &receive);
    if (found->second.receives.empty()) boxes.erase(found);
  }

  // Finishes the receives for which an objection has come up.
  void FailHopeless() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    for (auto box = boxes.begin(); box != boxes.end();) {
      std::erase_if(box->second.receives, [&](Pending* receive) ABSL_NO_THREAD_SAFETY_ANALYSIS {
        const absl::Status objection = Objection(receive->key_.owner, receive->key_.peer);
        if (!objection.ok()) receive->Finish(objection);
        return !objection.ok();
      });
      const bool empty = box->second.receives.empty() && box->second.messages.empty();
      box = empty ? boxes.erase(box) : std::next(box);
    }
  }

  Mutex mutex;
  std::vector<Rank> ranks ABSL_GUARDED_BY(mutex);
  std::map<Address, Mailbox> boxes ABSL_GUARDED_BY(mutex);
};

LoopbackFabric::Pending::~Pending() {
  MutexLock lock(mailboxes_.mutex);
  mailboxes_.Withdraw(*this);
}

absl::Status LoopbackFabric::Pending::Wait(absl::Time deadline) {
  MutexLock lock(mailboxes_.mutex);
  if (changed_.WaitUntil(mailboxes_.mutex, deadline, [this] { return done_; })) return status_;
  return absl::DeadlineExceededError(absl::StrCat("receive of ", bytes_.size(), " bytes from rank ",
                                                  key_.peer, " (", DescribeTag(key_.tag),
                                                  ") not done at the deadline"));
}

void LoopbackFabric::Pending::Take(absl::Span<const std::byte> message) {
  if (message.size() != bytes_.size()) {
    return Finish(
        absl::InternalError(absl::StrCat("message of ", message.size(), " bytes from rank ", key_.peer, " (",
                                         DescribeTag(key_.tag), ") for a receive of ", bytes_.size())));
  }
  if (!message.empty()) std::memcpy(bytes_.data(), message.data(), message.size());
  Finish(absl::OkStatus());
}

// One rank's view.
class LoopbackFabric::Member final : public Transport {
 public:
  Member(Mailboxes& mailboxes, int rank, int size) : mailboxes_(mailboxes), rank_(rank), size_(size) {}
  ~Member() override {
    MutexLock lock(mailboxes_.mutex);
    mailboxes_.ranks[rank_].joined = false;
    mailboxes_.ranks[rank_].aborted = absl::OkStatus();
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  absl::StatusOr<std::unique_ptr<Transfer>> Send(int peer, MessageTag tag,
                                                 absl::Span<const std::byte> bytes) override {
    ASSIGN_OR_RETURN(const uint64_t bits, Pack(peer, rank_, tag));
    auto transfer = std::make_unique<Pending>(mailboxes_, Pending::Key{{peer, bits}, rank_, peer, tag},
                                              absl::Span<std::byte>());
    MutexLock lock(mailboxes_.mutex);
    const absl::Status objection = mailboxes_.Objection(rank_, peer);
    if (objection.ok()) mailboxes_.Deliver({peer, bits}, bytes);
    transfer->Finish(objection);
    return transfer;
  }

  absl::StatusOr<std::unique_ptr<Transfer>> Receive(int peer, MessageTag tag,
                                                    absl::Span<std::byte> bytes) override {
    ASSIGN_OR_RETURN(const uint64_t bits, Pack(peer, peer, tag));
    auto transfer =
        std::make_unique<Pending>(mailboxes_, Pending::Key{{rank_, bits}, rank_, peer, tag}, bytes);
    MutexLock lock(mailboxes_.mutex);
    mailboxes_.Post(*transfer);
    return transfer;
  }

  void Abort(const std::string& reason) override {
    MutexLock lock(mailboxes_.mutex);
    absl::Status& aborted = mailboxes_.ranks[rank_].aborted;
    if (aborted.ok()) aborted = absl::CancelledError(reason);
    mailboxes_.FailHopeless();
  }

 private:
  absl::StatusOr<uint64_t> Pack(int peer, int source, MessageTag tag) const {
    if (peer < 0 || peer >= size_ || peer == rank_) {
      return absl::InvalidArgumentError(
          absl::StrCat("peer is ", peer, ", not in [0, ", size_, ") without this rank, ", rank_));
    }
    return PackTag({.epoch = 0, .source = source, .message = tag});
  }

  Mailboxes& mailboxes_;
  const int rank_;
  const int size_;
};

LoopbackFabric::LoopbackFabric(int size) : mailboxes_(std::make_unique<Mailboxes>(std::max(size, 1))) {
  if (size < 1 || size > kMaximumRanks)
    Stop(absl::StrCat("size is ", size, ", not in [1, ", kMaximumRanks, "]"));
}

LoopbackFabric::~LoopbackFabric() = default;

std::unique_ptr<Transport> LoopbackFabric::Join(int rank) {
  MutexLock lock(mailboxes_->mutex);
  const int size = static_cast<int>(mailboxes_->ranks.size());
  if (rank < 0 || rank >= size) Stop(absl::StrCat("rank is ", rank, ", not in [0, ", size, ")"));
  if (std::exchange(mailboxes_->ranks[rank].joined, true)) Stop(absl::StrCat("rank ", rank, " joined twice"));
  return std::make_unique<Member>(*mailboxes_, rank, size);
}

void LoopbackFabric::MarkGone(int rank) {
  MutexLock lock(mailboxes_->mutex);
  if (rank < 0 || rank >= static_cast<int>(mailboxes_->ranks.size())) Stop(absl::StrCat("no rank ", rank));
  mailboxes_->ranks[rank].gone = true;
  mailboxes_->FailHopeless();
}

}  // namespace medley
