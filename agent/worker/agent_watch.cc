#include "agent/worker/agent_watch.h"

#include <poll.h>
#include <unistd.h>

#include <thread>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "runtime/base/clock.h"
#include "runtime/base/current_phase.h"
#include "runtime/base/progress.h"
#include "runtime/base/stacks/thread_stacks.h"
#include "runtime/base/valid_utf8.h"

namespace medley {
namespace {

constexpr int kAgentGone = 3;
constexpr int kAgentSilent = 4;
constexpr absl::Duration kThreadPatience = absl::Seconds(1);

v1::WorkerReply Pong(uint64_t allocated_bytes) {
  const CurrentPhase::Phase phase = CurrentPhase::OfProcess().phase();
  v1::WorkerReply reply;
  v1::Pong& pong = *reply.mutable_pong();
  pong.set_progress(Progress::OfProcess().count());
  pong.set_waits_for_peers(phase.waits_for_peers);
  pong.set_activity(ValidUtf8(phase.activity));
  pong.set_allocated_bytes(allocated_bytes);
  return reply;
}

// Not by the logger: who reads its lines may be what hangs.
void SayIfPossible(const std::string& line) {
  pollfd standard_error{.fd = STDERR_FILENO, .events = POLLOUT, .revents = 0};
  if (poll(&standard_error, 1, 0) == 1) (void)!write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace

AgentWatch::AgentWatch(MessageChannel& channel)
    : channel_(channel), heard_(Now()), started_(promise_.get_future()) {
  std::thread([this] { Receive(); }).detach();
}

void AgentWatch::HoldTo(absl::Duration lease) {
  if (lease > absl::ZeroDuration()) std::thread([this, lease] { Watch(lease); }).detach();
}

void AgentWatch::Receive() {
  v1::WorkerCommand command;
  while (channel_.Receive(command, absl::InfiniteFuture()).ok()) {
    {
      MutexLock lock(mutex_);
      heard_ = Now();
    }
    Handle(command);
  }
  _exit(kAgentGone);  // what is half done is of no use
}

void AgentWatch::Handle(const v1::WorkerCommand& command) {
  // A pong that finds the channel full is lost: the agent has other life signs to read.
  if (command.has_ping()) (void)channel_.TrySend(Pong(allocated_bytes_));
  if (command.has_finish_early()) finish_early_ = true;
  if (command.has_trace()) {
    v1::WorkerReply reply;
    reply.mutable_trace()->set_number(command.trace().number());
    *reply.mutable_trace()->mutable_answer() = trace_window_.Ask(command.trace());
    (void)channel_.Send(reply);
  }
  if (command.has_describe_stacks()) {
    // By a thread of its own: with many threads that do not answer it takes longer than the lease, and pings
    // come meanwhile.
    std::thread([this] {
      v1::WorkerReply reply;
      reply.set_stacks(ValidUtf8(DescribeThreadStacks(kThreadPatience)));
      (void)channel_.Send(reply);
    }).detach();
  }
  if (!command.has_start() || std::exchange(told_, true)) return;
  promise_.set_value(
      {command.start().data_plane_addresses().begin(), command.start().data_plane_addresses().end()});
}

void AgentWatch::Watch(absl::Duration lease) {
  // In a thread of its own, which waits for nothing else.
  SilenceLimit silence(lease, Now());
  while (true) {
    absl::SleepFor(silence.look_time());
    {
      MutexLock lock(mutex_);
      silence.Heard(heard_);
    }
    const absl::Time now = Now();
    if (!silence.IsOver(now)) continue;
    SayIfPossible(
        absl::StrFormat("error: nothing was heard of the agent for %.1f s: this worker ends itself\n",
                        absl::ToDoubleSeconds(silence.silence(now))));
    _exit(kAgentSilent);
  }
}

}  // namespace medley
