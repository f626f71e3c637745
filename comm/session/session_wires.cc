#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "comm/session/session_loop.h"
#include "comm/session/uptime.h"
#include "comm/session/wire_ids.h"

namespace medley {
namespace {

constexpr size_t kReadBytes = 64 << 10;          // of one connection at a time
constexpr size_t kMaximumUnsentBytes = 1 << 20;  // more than a peer that reads ever leaves
constexpr size_t kMinimumStrangers = 64;
constexpr int kAcceptsAtOnce = 16;

}  // namespace

void SessionLoop::Accept(const Descriptor& listener) {
  for (int i = 0; i < kAcceptsAtOnce; ++i) {
    absl::StatusOr<Descriptor> socket = AcceptFrom(listener);
    if (!socket.ok()) {
      // No descriptors left. Whoever has been here longest without a proof makes room; the rest waits for the
      // next tick.
      DropOldestStranger();
      return Listen(false);
    }
    if (socket->get() < 0) return;
    const absl::StatusOr<Nonce> nonce = FreshNonce();
    if (!nonce.ok()) return;  // then none connects; who tries sees the end of the connection
    // Members prove themselves within milliseconds, so it is not they whom the oldest stranger's end hits.
    if (strangers_ >= std::max(kMinimumStrangers, members_.size())) DropOldestStranger();
    Wire wire;
    wire.socket = *std::move(socket);
    wire.handshake = Handshake::OfAcceptor(self_, *nonce);
    wire.expires_at = Uptime() + options_.handshake_limit;
    Prepare(wire.socket, options_.silence_limit);
    Add(std::move(wire), EPOLLIN);
    ++strangers_;
  }
}

void SessionLoop::DropOldestStranger() {
  const auto oldest = std::find_if(wires_.begin(), wires_.end(), [](const auto& entry) {
    return !entry.second.is_ours && entry.second.stage == Wire::Stage::kProving;
  });
  if (oldest != wires_.end())
    Break(oldest->first, absl::ResourceExhaustedError("too many connections without proof"));
}

uint64_t SessionLoop::Add(Wire wire, uint32_t events) {
  epoll_event event = {};
  event.events = events;
  event.data.u64 = ++last_wire_;
  epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, wire.socket.get(), &event);  // if it fails, the connection expires
  wires_.emplace(last_wire_, std::move(wire));
  // The next tick may be a second off.
  next_tick_ = std::min(next_tick_, Uptime() + std::min(absl::Milliseconds(50), options_.handshake_limit));
  return last_wire_;
}

void SessionLoop::Handle(uint64_t id, uint32_t events) {
  if (id == kWakeId) {
    uint64_t count;
    (void)!read(wake_.get(), &count, sizeof(count));
    return;
  }
  if (id < kFirstWire) {
    if (is_listening_) Accept(listeners_[id - kFirstListener]);
    return;
  }
  const auto found = wires_.find(id);
  if (found == wires_.end()) return;  // ended by an event before this one
  if (found->second.stage == Wire::Stage::kDialing) return FinishDialing(id);
  if ((events & EPOLLOUT) != 0) unsent_.push_back(id);
  if ((events & ~EPOLLOUT) != 0) Read(id);
}

void SessionLoop::FinishDialing(uint64_t id) {
  Wire& wire = wires_.at(id);
  const absl::Status connected = SocketError(wire.socket);
  if (!connected.ok()) return Break(id, connected);
  const absl::StatusOr<Nonce> nonce = FreshNonce();
  if (!nonce.ok()) return Break(id, nonce.status());
  Prepare(wire.socket, options_.silence_limit);
  wire.stage = Wire::Stage::kProving;
  wire.handshake = Handshake::OfConnector(self_, *nonce, wire.rank, peers_[wire.rank].address);
  wire.expires_at = Uptime() + options_.handshake_limit;
  wire.out = wire.handshake->TakeOutput();
  wire.awaits_room = true;  // as it is registered so far
  Flush(id);
}

void SessionLoop::Read(uint64_t id) {
  std::string bytes;
  const absl::StatusOr<ReadResult> result = ReadInto(wires_.at(id).socket, kReadBytes, bytes);
  // What came before the end counts: a goodbye, above all.
  if (!bytes.empty()) {
    Wire& wire = wires_.at(id);
    if (wire.stage == Wire::Stage::kProving) {
      Prove(id, bytes);
    } else {
      wire.heard_at = Uptime();
      wire.decoder.Append(bytes);
      ReadFrames(id);
    }
  }
  const auto found = wires_.find(id);
  if (found == wires_.end()) return;
  const bool is_member = found->second.stage == Wire::Stage::kMember;
  if (!result.ok())
    return Break(id, is_member ? result.status() : absl::AbortedError(result.status().message()));
  if (*result == ReadResult::kEnd) {
    Break(id,
          absl::AbortedError(is_member ? "connection closed without goodbye" : "connection closed unproven"));
  }
}

void SessionLoop::Prove(uint64_t id, const std::string& bytes) {
  Wire& wire = wires_.at(id);
  const Handshake::Verdict verdict = wire.handshake->Receive(bytes);
  wire.out += wire.handshake->TakeOutput();
  if (verdict == Handshake::Verdict::kFailed) {
    (void)SendFrom(wire.socket, wire.out);  // the refusal, if there is room, as there is in a new connection
    return Break(id, wire.handshake->error());
  }
  if (verdict == Handshake::Verdict::kProven) return Admit(id);
  Flush(id);
}

void SessionLoop::Flush(uint64_t id) {
  const auto found = wires_.find(id);
  if (found == wires_.end() || found->second.stage == Wire::Stage::kDialing) return;
  Wire& wire = found->second;
  // A broken connection may still hold what the peer said last; reading finds the end.
  if (!SendFrom(wire.socket, wire.out).ok()) wire.out.clear();
  if (wire.out.size() > kMaximumUnsentBytes)
    return Break(id, absl::ResourceExhaustedError("it reads nothing"));
  if (wire.awaits_room == !wire.out.empty()) return;
  wire.awaits_room = !wire.out.empty();
  epoll_event event = {};
  event.events = EPOLLIN;
  if (wire.awaits_room) event.events |= EPOLLOUT;
  event.data.u64 = id;
  epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, wire.socket.get(), &event);
}

void SessionLoop::Break(uint64_t id, const absl::Status& why) {
  const Wire& wire = wires_.at(id);
  if (wire.stage == Wire::Stage::kMember)
    return MarkGone(wire.rank, /*left=*/false, std::string(why.message()));
  if (wire.is_ours) {
    const auto dialer = dialers_.find(wire.rank);
    if (dialer != dialers_.end()) dialer->second.Failed(why, Uptime());
  } else {
    --strangers_;
    if (!absl::IsAborted(why)) ++refused_;  // who merely went away was not turned away
  }
  wires_.erase(id);
}

}  // namespace medley
