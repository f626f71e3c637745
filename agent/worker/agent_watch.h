#pragma once
#include <algorithm>
#include <atomic>
#include <future>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "agent/channel/message_channel.h"
#include "agent/worker/trace_window.h"
#include "proto/medley/v1/agent.pb.h"
#include "runtime/base/mutex.h"

namespace medley {

// Whether somebody has been silent for longer than `limit`. The time is an argument. Not thread-safe.
class SilenceLimit {
 public:
  SilenceLimit(absl::Duration limit, absl::Time now) : limit_(limit), heard_(now), looked_(now) {}

  // IsOver is to be asked this often.
  absl::Duration look_time() const { return limit_ / 8; }
  void Heard(absl::Time when) { heard_ = std::max(heard_, when); }

  // A look that comes late by more than half of the limit says that this process itself did not run: it was
  // stopped, or the machine was suspended, and what was said meanwhile could not be heard. Then the silence
  // is counted anew.
  bool IsOver(absl::Time now) {
    if (now - looked_ > limit_ / 2) heard_ = now;
    looked_ = now;
    return now - heard_ > limit_;
  }
  absl::Duration silence(absl::Time now) const { return now - heard_; }

 private:
  const absl::Duration limit_;
  absl::Time heard_, looked_;
};

// Hears everything that the agent says after the preparation's command, and answers its pings at once,
// whatever the worker is at: with the process's progress (runtime/base/progress.h). Ends the process when the
// agent is gone (exit status 3) or, with a lease, silent for too long (4): nobody is left to work for, and
// another may have been given the work. Lives as long as the process.
class AgentWatch {
 public:
  // Takes over receiving from `channel`, which outlives the process's end.
  explicit AgentWatch(MessageChannel& channel);

  // From now on the agent may not be silent for longer. Zero: it may. Called once at most.
  void HoldTo(absl::Duration lease);

  // Blocks until the agent lets the worker go; the peers' addresses. Called once.
  std::vector<std::string> Addresses() { return started_.get(); }

  // Whether the agent has asked for an early end.
  const std::atomic<bool>& finish_early() const { return finish_early_; }

  // Of the device's memory, in use by the task: what pongs say.
  std::atomic<uint64_t>& allocated_bytes() { return allocated_bytes_; }

  // The steps that the agent has asked to be traced.
  TraceWindow& trace_window() { return trace_window_; }

 private:
  [[noreturn]] void Receive();
  [[noreturn]] void Watch(absl::Duration lease);
  void Handle(const v1::WorkerCommand& command);

  MessageChannel& channel_;
  Mutex mutex_;
  absl::Time heard_ ABSL_GUARDED_BY(mutex_);
  std::atomic<bool> finish_early_ = false;
  TraceWindow trace_window_;
  std::atomic<uint64_t> allocated_bytes_ = 0;
  bool told_ = false;  // of the receiving thread
  std::promise<std::vector<std::string>> promise_;
  std::future<std::vector<std::string>> started_;
};

}  // namespace medley
