#include "comm/loopback/mailboxes.h"

#include <cstring>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "comm/transport/message_tag.h"
#include "runtime/base/clock.h"

namespace medley {

LoopbackTransfer::~LoopbackTransfer() {
  MutexLock lock(mailboxes_.mutex_);
  if (!done_) mailboxes_.Withdraw(*this);
}

bool LoopbackTransfer::Done() {
  MutexLock lock(mailboxes_.mutex_);
  return done_;
}

absl::Status LoopbackTransfer::Wait(absl::Time deadline) {
  MutexLock lock(mailboxes_.mutex_);
  if (done_) return status_;
  const absl::Time begin = Now();
  const bool done = changed_.WaitUntil(mailboxes_.mutex_, deadline, [this] { return done_; });
  mailboxes_.TrafficOf(key_).wait_seconds += absl::ToDoubleSeconds(Now() - begin);
  if (done) return status_;
  return absl::DeadlineExceededError(absl::StrCat("receive of ", bytes_.size(), " bytes from rank ",
                                                  key_.peer, " (", DescribeTag(key_.tag),
                                                  ") not done at the deadline"));
}

bool Mailboxes::Join(int rank) {
  MutexLock lock(mutex_);
  return !std::exchange(ranks_[rank].joined, true);
}

void Mailboxes::Leave(int rank) {
  MutexLock lock(mutex_);
  ranks_[rank] = Rank();
}

void Mailboxes::Send(LoopbackTransfer& transfer, absl::Span<const std::byte> bytes) {
  MutexLock lock(mutex_);
  const LoopbackTransfer::Key& key = transfer.key_;
  const absl::Status objection = Objection(key.owner, key.peer);
  Finish(transfer, objection);
  if (!objection.ok()) return;
  PeerTraffic& traffic = TrafficOf(key);
  traffic.bytes_sent += bytes.size();
  ++traffic.messages_sent;
  Mailbox& box = boxes_[key.address];
  if (box.receives.empty()) {
    box.messages.emplace_back(bytes.begin(), bytes.end());
    return;
  }
  Fill(*box.receives.front(), bytes);
  box.receives.pop_front();
  if (box.receives.empty()) boxes_.erase(key.address);
}

void Mailboxes::Receive(LoopbackTransfer& transfer) {
  MutexLock lock(mutex_);
  const LoopbackTransfer::Key& key = transfer.key_;
  const absl::Status& aborted = ranks_[key.owner].aborted;
  if (!aborted.ok()) return Finish(transfer, aborted);
  const auto found = boxes_.find(key.address);
  if (found != boxes_.end() && !found->second.messages.empty()) {
    Fill(transfer, found->second.messages.front());
    found->second.messages.pop_front();
    if (found->second.messages.empty()) boxes_.erase(found);
    return;
  }
  const absl::Status objection = Objection(key.owner, key.peer);
  if (!objection.ok()) return Finish(transfer, objection);
  boxes_[key.address].receives.push_back(&transfer);
}

void Mailboxes::Abort(int rank, const std::string& reason) {
  MutexLock lock(mutex_);
  absl::Status& aborted = ranks_[rank].aborted;
  if (aborted.ok()) aborted = absl::CancelledError(reason);
  FailHopeless(rank);
}

void Mailboxes::MarkGone(int owner, int peer, const std::string& why) {
  MutexLock lock(mutex_);
  ranks_[owner].gone.emplace(peer, why);
  FailHopeless(owner);
}

std::vector<PeerTraffic> Mailboxes::Traffic(int rank) const {
  MutexLock lock(mutex_);
  std::vector<PeerTraffic> all;
  for (const auto& [key, traffic] : ranks_[rank].traffic) {
    if (traffic.messages_sent + traffic.messages_received > 0) all.push_back(traffic);
  }
  return all;
}

void Mailboxes::Withdraw(LoopbackTransfer& transfer) {
  const auto found = boxes_.find(transfer.key_.address);
  std::erase(found->second.receives, &transfer);
  if (found->second.receives.empty()) boxes_.erase(found);
}

absl::Status Mailboxes::Objection(int owner, int peer) const {
  if (!ranks_[owner].aborted.ok()) return ranks_[owner].aborted;
  const auto gone = ranks_[owner].gone.find(peer);
  if (gone == ranks_[owner].gone.end()) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("rank ", peer, " is gone: ", gone->second));
}

void Mailboxes::Finish(LoopbackTransfer& transfer, absl::Status status) {
  transfer.done_ = true;
  transfer.status_ = std::move(status);
  transfer.changed_.NotifyAll();
}

void Mailboxes::Fill(LoopbackTransfer& receive, absl::Span<const std::byte> message) {
  const LoopbackTransfer::Key& key = receive.key_;
  if (message.size() != receive.bytes_.size()) {
    return Finish(receive, absl::InternalError(absl::StrCat(
                               "message of ", message.size(), " bytes from rank ", key.peer, " (",
                               DescribeTag(key.tag), ") for a receive of ", receive.bytes_.size())));
  }
  if (!message.empty()) std::memcpy(receive.bytes_.data(), message.data(), message.size());
  PeerTraffic& traffic = TrafficOf(key);
  traffic.bytes_received += message.size();
  ++traffic.messages_received;
  Finish(receive, absl::OkStatus());
}

void Mailboxes::FailHopeless(int owner) {
  for (auto box = boxes_.lower_bound({owner, 0}); box != boxes_.end() && box->first.first == owner;) {
    std::erase_if(box->second.receives, [&](LoopbackTransfer* receive) ABSL_NO_THREAD_SAFETY_ANALYSIS {
      const absl::Status objection = Objection(receive->key_.owner, receive->key_.peer);
      if (!objection.ok()) Finish(*receive, objection);
      return !objection.ok();
    });
    const bool empty = box->second.receives.empty() && box->second.messages.empty();
    box = empty ? boxes_.erase(box) : std::next(box);
  }
}

PeerTraffic& Mailboxes::TrafficOf(const LoopbackTransfer::Key& key) {
  PeerTraffic& traffic = ranks_[key.owner].traffic[{key.peer, key.tag.kind}];
  traffic.peer = key.peer;
  traffic.kind = key.tag.kind;
  traffic.path = "loopback";
  return traffic;
}

}  // namespace medley
