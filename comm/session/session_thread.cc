#include <sys/epoll.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "comm/session/session_loop.h"
#include "comm/session/uptime.h"
#include "comm/session/wire_ids.h"

namespace medley {
namespace {

constexpr absl::Duration kBusyTick = absl::Milliseconds(50);  // while connections are made
constexpr absl::Duration kDialLimit = absl::Seconds(1);       // for one endpoint to take a connection

}  // namespace

void SessionLoop::Run() {
  constexpr int kMaximumEvents = 64;
  epoll_event events[kMaximumEvents];
  MutexLock lock(mutex_);
  while (!stopping_) {
    const absl::Duration wait = std::max(next_tick_ - Uptime(), absl::ZeroDuration());
    const auto milliseconds = static_cast<int>(absl::ToInt64Milliseconds(wait + absl::Microseconds(999)));
    mutex_.Unlock();
    const int count = epoll_wait(epoll_.get(), events, kMaximumEvents, milliseconds);
    mutex_.Lock();
    for (int i = 0; i < count && !stopping_; ++i) Handle(events[i].data.u64, events[i].events);
    // Silence is judged only once everything that has come was read, lest this thread's own delay count as a
    // peer's.
    const absl::Duration now = Uptime();
    if (now >= next_tick_) Tick(now, /*may_judge=*/count < kMaximumEvents);
    do {
      for (const uint64_t id : std::exchange(unsent_, {})) Flush(id);
      Deliver();
    } while (!unsent_.empty() || !notices_.empty());
  }
  for (const uint64_t id : std::exchange(unsent_, {}))
    Flush(id);  // a goodbye, where there was no time for an answer
}

void SessionLoop::Deliver() {
  const auto gone = std::exchange(notices_, {});
  const auto asked = std::exchange(questions_, {});
  if (gone.empty() && asked.empty()) return;
  const auto on_gone = on_gone_;
  const auto on_question = on_question_;
  std::vector<Enquiry> answers(asked.size());
  mutex_.Unlock();
  for (const Notice& one : gone) {
    if (on_gone) on_gone(one.rank, one.left, one.why);
  }
  for (size_t i = 0; i < asked.size(); ++i) {
    answers[i] = {.id = asked[i].enquiry.id, .understood = on_question != nullptr};
    if (on_question)
      answers[i].text = on_question(asked[i].rank, asked[i].enquiry.text).substr(0, kMaximumQuestionBytes);
  }
  mutex_.Lock();
  for (size_t i = 0; i < asked.size(); ++i) {
    const Member& member = members_[asked[i].rank];
    if (member.state == Member::State::kConnected)
      Say(member.wire, Frame::Type::kAnswer, EncodeEnquiry(answers[i]));
  }
}

void SessionLoop::Tick(absl::Duration now, bool may_judge) {
  Listen(phase_ != Phase::kClosing);
  const bool heartbeat_due = now >= next_heartbeat_;
  if (heartbeat_due) next_heartbeat_ = now + options_.heartbeat;
  std::vector<std::pair<uint64_t, absl::Status>> over;
  for (const auto& [id, wire] : wires_) {
    if (wire.stage != Wire::Stage::kMember && now >= wire.expires_at) {
      over.emplace_back(
          id, absl::DeadlineExceededError(wire.stage == Wire::Stage::kDialing ? "no connection in time"
                                                                              : "no proof in time"));
    } else if (wire.stage == Wire::Stage::kMember && may_judge &&
               now - wire.heard_at >= options_.silence_limit) {
      over.emplace_back(id, absl::UnavailableError(absl::StrFormat(
                                "silent for %.1f s", absl::ToDoubleSeconds(now - wire.heard_at))));
    } else if (wire.stage == Wire::Stage::kMember && heartbeat_due) {
      Say(id, Frame::Type::kHeartbeat, "");
    }
  }
  for (const auto& [id, why] : over) Break(id, why);
  if (phase_ == Phase::kConnecting) Dial(now);
  const bool is_busy = phase_ == Phase::kConnecting || strangers_ > 0;
  const absl::Duration idle_tick = std::min(options_.heartbeat, options_.silence_limit / 8);
  next_tick_ = now + (is_busy ? std::min(kBusyTick, idle_tick) : idle_tick);
}

void SessionLoop::Dial(absl::Duration now) {
  for (auto& [rank, dialer] : dialers_) {
    if (members_[rank].state != Member::State::kAbsent) continue;
    if (!dialer.verdict().ok()) return FailConnect(dialer.verdict());
    const std::optional<Endpoint> endpoint = dialer.Next(now);
    if (!endpoint) continue;
    absl::StatusOr<Descriptor> socket = BeginConnect(*endpoint);
    if (!socket.ok()) {
      dialer.Failed(socket.status(), now);
      continue;
    }
    Wire wire;
    wire.stage = Wire::Stage::kDialing;
    wire.rank = rank;
    wire.is_ours = true;
    wire.socket = *std::move(socket);
    wire.expires_at = now + kDialLimit;
    Add(std::move(wire), EPOLLOUT);
  }
}

void SessionLoop::Listen(bool on) {
  if (on == is_listening_) return;
  is_listening_ = on;
  for (size_t i = 0; i < listeners_.size(); ++i) {
    epoll_event event = {};
    event.events = EPOLLIN;
    event.data.u64 = kFirstListener + i;
    epoll_ctl(epoll_.get(), on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, listeners_[i].get(), &event);
  }
}

}  // namespace medley
