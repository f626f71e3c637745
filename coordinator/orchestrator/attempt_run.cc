#include "coordinator/orchestrator/attempt_run.h"

#include <algorithm>
#include <thread>

#include "absl/strings/str_cat.h"
#include "coordinator/orchestrator/attempt_secret.h"
#include "runtime/base/clock.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

// After the first failure the others get so long to say whether theirs was the cause.
constexpr absl::Duration kGrace = absl::Seconds(1);

}  // namespace

AttemptRun::AttemptRun(AgentClient& agents, std::vector<AttemptTask> tasks)
    : agents_(agents), tasks_(std::move(tasks)) {}

// How likely a failure is the cause of the others, the least the likeliest: an abort from outside; what a
// unit says of itself, and what others saw of its death; what it suffered from others; that it was told to
// end.
int AttemptRun::Rank(const Failure& failure) {
  if (failure.task < 0) return 0;
  if (failure.died) return 1;
  switch (failure.status.code()) {
    case absl::StatusCode::kCancelled:
    case absl::StatusCode::kAborted:
      return 3;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
      return 2;
    default:
      return 1;
  }
}

absl::Status AttemptRun::GiveSecret() {
  absl::StatusOr<std::string> secret = NewAttemptSecret();
  RETURN_IF_ERROR(secret.status());
  for (AttemptTask& task : tasks_) {
    if (task.request.has_train() || task.request.has_probe()) task.request.set_attempt_secret(*secret);
  }
  return absl::OkStatus();
}

void AttemptRun::Fail(Failure failure) {
  MutexLock lock(mutex_);
  failures_.push_back(std::move(failure));
  changed_.NotifyAll();
}

void AttemptRun::Abort(const absl::Status& reason, const std::string& device) {
  Fail({.task = -1, .device = device, .status = reason});
}

AttemptEnd AttemptRun::Run(const Callbacks& callbacks, absl::Duration prepare_timeout) {
  if (const absl::Status given = GiveSecret(); !given.ok()) return {.status = given};
  std::vector<std::string> addresses(tasks_.size());
  if (!PrepareAll(prepare_timeout, addresses)) {
    StopAll();
    return RootCause();
  }
  StartAll(addresses, callbacks);
  if (callbacks.launched) callbacks.launched();
  JoinAll();
  return RootCause();
}

bool AttemptRun::AwaitPrepared(absl::Time deadline) {
  MutexLock lock(mutex_);
  const int all = static_cast<int>(tasks_.size());
  return changed_.WaitUntil(mutex_, deadline, [&] { return prepared_ == all; });
}

bool AttemptRun::PrepareAll(absl::Duration timeout, std::vector<std::string>& addresses) {
  const absl::Time deadline = Now() + timeout;
  std::vector<std::thread> threads;
  for (int i = 0; i < static_cast<int>(tasks_.size()); ++i) {
    threads.emplace_back([&, i] {
      const absl::StatusOr<v1::PrepareResponse> response =
          agents_.Prepare(tasks_[i].agent_address, tasks_[i].request, deadline);
      if (response.ok()) {
        addresses[i] = response->data_plane_address();
      } else {
        // A worker that dies is Unavailable, too; its last words are in the message. Both mean: not on this node, now.
        Fail({.task = i, .device = tasks_[i].device, .status = response.status(),
              .agent_unreachable = absl::IsUnavailable(response.status())});
      }
      MutexLock lock(mutex_);
      ++prepared_;
      changed_.NotifyAll();
    });
  }
  {
    MutexLock lock(mutex_);
    const int all = static_cast<int>(tasks_.size());
    changed_.WaitUntil(mutex_, absl::InfiniteFuture(), [&] { return prepared_ == all || !failures_.empty(); });
  }
  // After a failure nobody needs to go on preparing. Asked more than once: an agent may hear of the task only now.
  while (!AwaitPrepared(Now())) {
    StopAll();
    AwaitPrepared(Now() + kGrace);
  }
  for (std::thread& thread : threads) thread.join();
  MutexLock lock(mutex_);
  return failures_.empty();
}

void AttemptRun::StartAll(const std::vector<std::string>& addresses, const Callbacks& callbacks) {
  for (int i = 0; i < static_cast<int>(tasks_.size()); ++i) {
    v1::StartRequest request;
    request.set_task_id(tasks_[i].request.task_id());
    for (const std::string& address : addresses) request.add_data_plane_addresses(address);
    running_.push_back(agents_.Start(tasks_[i].agent_address, request, [this, i, &callbacks](const v1::WorkerEvent& event) {
      if (event.has_finished() && event.finished().code() != 0) {
        Fail({.task = i,
              .device = tasks_[i].device,
              .status = absl::Status(static_cast<absl::StatusCode>(event.finished().code()),
                                     event.finished().message()),
              .died = event.finished().died()});
      }
      callbacks.event(i, event);
    }));
  }
}

void AttemptRun::JoinAll() {
  std::vector<std::thread> threads;
  for (int i = 0; i < static_cast<int>(running_.size()); ++i) {
    threads.emplace_back([this, i] {
      const absl::Status status = running_[i]->Join();
      if (!status.ok()) {
        const bool gone = absl::IsUnavailable(status);
        Fail({.task = i,
              .device = tasks_[i].device,
              .status = gone ? Annotate(status, "its agent is gone") : status,
              .agent_unreachable = gone,
              .died = gone});
      }
      MutexLock lock(mutex_);
      ++joined_;
      changed_.NotifyAll();
    });
  }
  {
    MutexLock lock(mutex_);
    const int all = static_cast<int>(running_.size());
    const auto ended = [&] { return joined_ == all; };
    changed_.WaitUntil(mutex_, absl::InfiniteFuture(), [&] { return ended() || !failures_.empty(); });
    const bool asked = !failures_.empty() && failures_.front().task < 0;
    if (!asked) changed_.WaitUntil(mutex_, Now() + kGrace, ended);
  }
  for (const std::unique_ptr<RunningTask>& task : running_) task->Cancel();
  for (std::thread& thread : threads) thread.join();
}

void AttemptRun::StopAll() {
  std::vector<std::thread> threads;
  for (const AttemptTask& task : tasks_) {
    threads.emplace_back([&] { agents_.Stop(task.agent_address, task.request.task_id()); });
  }
  for (std::thread& thread : threads) thread.join();
}

AttemptEnd AttemptRun::RootCause() {
  MutexLock lock(mutex_);
  if (failures_.empty()) return {};
  // The earliest of the most telling ones.
  const auto cause = std::min_element(failures_.begin(), failures_.end(),
                                      [](const Failure& a, const Failure& b) { return Rank(a) < Rank(b); });
  std::vector<std::string> unreachable;
  for (const Failure& failure : failures_) {
    if (failure.agent_unreachable) unreachable.push_back(failure.device);
  }
  const std::string where = cause->device.empty() ? "" : cause->device;
  return {.status = where.empty() ? cause->status : Annotate(cause->status, where),
          .device = cause->device,
          .unreachable_devices = std::move(unreachable)};
}

}  // namespace medley
