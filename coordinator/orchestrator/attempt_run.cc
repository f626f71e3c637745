#include "coordinator/orchestrator/attempt_run.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "coordinator/orchestrator/attempt_secret.h"
#include "runtime/base/clock.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

// A connection that broke is tried again for so long: an agent that has ended refuses at once and for good.
constexpr absl::Duration kReconnect = absl::Seconds(1);
// After the first failure the others get so long to say whether theirs was the cause: longer than an agent
// that is gone usually takes to be found so. One that takes longer is found so when its task is to be stopped, or the
// job would be planned with its devices once more.
constexpr absl::Duration kGrace = absl::Seconds(2);

// By rank, those of the peers of task `i` alone: of all they would be as many as the square of the tasks.
void AddAddresses(const std::vector<v1::PrepareResponse>& responses, size_t i, v1::StartRequest& request) {
  const auto& peers = responses[i].peers();
  for (const v1::PrepareResponse& response : responses)
    request.add_data_plane_addresses(peers.empty() ? response.data_plane_address() : "");
  for (const uint32_t peer : peers) {
    if (peer < responses.size())
      request.set_data_plane_addresses(static_cast<int>(peer), responses[peer].data_plane_address());
  }
}

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
  MutexLock lock(mutex_);
  if (failures_.empty() && ended_ == static_cast<int>(tasks_.size())) return;
  failures_.push_back({.task = -1, .device = device, .status = reason});
  changed_.NotifyAll();
}

AttemptRun::~AttemptRun() { AwaitStopped(); }

void AttemptRun::FinishEarly() {
  // One is enough: they agree on the step.
  int task = 0;
  {
    MutexLock lock(mutex_);
    if (is_asking_to_finish_ || will_finish_) return;
    is_asking_to_finish_ = true;
    ++stopping_;
    task = to_finish_;
    to_finish_ = (task + 1) % static_cast<int>(tasks_.size());
  }
  v1::StopRequest request;
  request.set_after_checkpoint(true);
  request.set_task_id(tasks_[task].request.task_id());
  agents_.Stop(tasks_[task].agent_address, request, [this](const absl::Status& status) {
    MutexLock lock(mutex_);
    is_asking_to_finish_ = false;
    will_finish_ = status.ok();
    --stopping_;
    changed_.NotifyAll();
  });
}

void AttemptRun::Leave() {
  MutexLock lock(mutex_);
  left_ = true;
  changed_.NotifyAll();
}

std::vector<std::string> AttemptRun::TaskIds() const {
  std::vector<std::string> ids;
  for (const AttemptTask& task : tasks_) ids.push_back(task.request.task_id());
  return ids;
}

AttemptEnd AttemptRun::Run(const Callbacks& callbacks) {
  if (const absl::Status given = GiveSecret(); !given.ok()) return {.status = given};
  std::vector<v1::PrepareResponse> responses(tasks_.size());
  if (!PrepareAll(responses)) {
    StopAll();
    return RootCause();
  }
  if (callbacks.prepared) {
    if (const absl::Status good = callbacks.prepared(responses); !good.ok()) {
      StopAll();
      return {.status = good, .prepared = true};
    }
  }
  std::vector<v1::StartRequest> requests(tasks_.size());
  for (size_t i = 0; i < tasks_.size(); ++i) {
    requests[i].set_task_id(tasks_[i].request.task_id());
    AddAddresses(responses, i, requests[i]);
  }
  StartAll(requests, callbacks, kReconnect);
  if (callbacks.launched) callbacks.launched();
  JoinAll();
  AttemptEnd end = RootCause();
  end.prepared = true;
  return end;
}

AttemptEnd AttemptRun::TakeUp(const Callbacks& callbacks, absl::Duration patience) {
  std::vector<v1::StartRequest> requests(tasks_.size());
  for (size_t i = 0; i < tasks_.size(); ++i) {
    requests[i].set_task_id(tasks_[i].request.task_id());
    requests[i].set_after_event(tasks_[i].after_event);
    requests[i].set_only_follow(true);
  }
  StartAll(requests, callbacks, patience);
  JoinAll();
  AttemptEnd end = RootCause();
  end.prepared = true;
  return end;
}

bool AttemptRun::AwaitPrepared(absl::Time deadline) {
  MutexLock lock(mutex_);
  const int all = static_cast<int>(tasks_.size());
  return changed_.WaitUntil(mutex_, deadline, [&] { return prepared_ == all; });
}

bool AttemptRun::PrepareAll(std::vector<v1::PrepareResponse>& responses) {
  for (int i = 0; i < static_cast<int>(tasks_.size()); ++i) {
    const auto answered = [this, &responses, i](absl::StatusOr<v1::PrepareResponse> response) {
      MutexLock lock(mutex_);
      if (response.ok()) {
        responses[i] = *std::move(response);
      } else {
        if (absl::IsUnavailable(response.status())) unreachable_.insert(i);
        // After the first failure the others are stopped, and say so.
        failures_.push_back({.task = i,
                             .device = tasks_[i].device,
                             .status = response.status(),
                             .died = failures_.empty() && absl::IsAborted(response.status())});
      }
      ++prepared_;
      changed_.NotifyAll();
    };
    agents_.Prepare(tasks_[i].agent_address, {tasks_[i].shared_request, tasks_[i].request}, answered);
  }
  {
    MutexLock lock(mutex_);
    const int all = static_cast<int>(tasks_.size());
    changed_.WaitUntil(mutex_, absl::InfiniteFuture(),
                       [&] { return prepared_ == all || !failures_.empty() || left_; });
  }
  // After a failure, or where nobody listens any more, nobody needs to go on preparing. Asked more than once: an
  // agent may hear of the task only now.
  while (!AwaitPrepared(absl::InfinitePast())) {
    StopAll();
    AwaitPrepared(Now() + kGrace);
  }
  MutexLock lock(mutex_);
  if (left_) failures_.push_back({.task = -1, .status = absl::CancelledError("the coordinator is stopping")});
  return failures_.empty();
}

void AttemptRun::StartAll(const std::vector<v1::StartRequest>& requests, const Callbacks& callbacks,
                          absl::Duration patience) {
  for (int i = 0; i < static_cast<int>(tasks_.size()); ++i) {
    const auto event = [this, i, &callbacks](const v1::WorkerEvent& said) {
      const v1::Finished& finished = said.finished();
      if (said.has_finished() && finished.code() != 0) {
        Fail({.task = i,
              .device = tasks_[i].device,
              .status = absl::Status(static_cast<absl::StatusCode>(finished.code()), finished.message()),
              .died = finished.died()});
      }
      if (said.has_finished() && finished.stopped()) {
        MutexLock lock(mutex_);
        stopped_ = true;
      }
      callbacks.event(i, said);
    };
    const auto ended = [this, i](const absl::Status& status) { Ended(i, status); };
    running_.push_back(agents_.Start(tasks_[i].agent_address, requests[i], patience, {event, ended}));
  }
}

void AttemptRun::Ended(int task, const absl::Status& status) {
  MutexLock lock(mutex_);
  if (!status.ok() && !left_) {
    const bool gone = absl::IsUnavailable(status), unknown = absl::IsNotFound(status);
    if (gone) unreachable_.insert(task);
    failures_.push_back(
        {.task = task,
         .device = tasks_[task].device,
         .status = gone      ? Annotate(status, "its agent is gone")
                   : unknown ? absl::UnavailableError("its agent was started anew, or has given the task up")
                             : status,
         .died = gone || unknown});
  }
  ++ended_;
  changed_.NotifyAll();
}

void AttemptRun::JoinAll() {
  const int all = static_cast<int>(running_.size());
  bool stop = false;
  {
    MutexLock lock(mutex_);
    const auto ended = [&] { return ended_ == all; };
    changed_.WaitUntil(mutex_, absl::InfiniteFuture(),
                       [&] { return ended() || left_ || !failures_.empty(); });
    const bool asked = left_ || (!failures_.empty() && failures_.front().task < 0);
    if (!asked) changed_.WaitUntil(mutex_, Now() + kGrace, [&] { return ended() || left_; });
    left_ = left_ && failures_.empty() && !ended();
    stop = !left_ && !ended();
  }
  if (stop) StopAll();
  for (const std::unique_ptr<RunningTask>& task : running_) task->Cancel();
  running_.clear();
}

void AttemptRun::Stop(int task, const v1::StopRequest& request) {
  {
    MutexLock lock(mutex_);
    ++stopping_;
  }
  agents_.Stop(tasks_[task].agent_address, request, [this, task](const absl::Status& status) {
    MutexLock lock(mutex_);
    if (absl::IsUnavailable(status)) unreachable_.insert(task);
    --stopping_;
    changed_.NotifyAll();
  });
}

void AttemptRun::AwaitStopped() {
  MutexLock lock(mutex_);
  changed_.WaitUntil(mutex_, absl::InfiniteFuture(), [&] { return stopping_ == 0; });
}

void AttemptRun::StopAll() {
  for (int i = 0; i < static_cast<int>(tasks_.size()); ++i) {
    v1::StopRequest request;
    request.set_task_id(tasks_[i].request.task_id());
    Stop(i, request);
  }
  AwaitStopped();
}

AttemptEnd AttemptRun::RootCause() {
  MutexLock lock(mutex_);
  if (failures_.empty()) return {.stopped = stopped_, .left = left_};
  // The earliest of the most telling ones.
  const auto cause = std::min_element(failures_.begin(), failures_.end(),
                                      [](const Failure& a, const Failure& b) { return Rank(a) < Rank(b); });
  std::vector<std::string> unreachable;
  for (const int task : unreachable_) unreachable.push_back(tasks_[task].device);
  const std::string where = cause->device.empty() ? "" : cause->device;
  return {.status = where.empty() ? cause->status : Annotate(cause->status, where),
          .device = cause->device,
          .unreachable_devices = std::move(unreachable)};
}

}  // namespace medley
