#include "agent/supervisor/supervisor.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/base/clock.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

constexpr absl::Duration kLookAroundEvery = absl::Milliseconds(100);

absl::Status ToStatus(const v1::Finished& finished) {
  return absl::Status(static_cast<absl::StatusCode>(finished.code()), finished.message());
}

}  // namespace

absl::StatusOr<Supervisor::Admission> Supervisor::Admit(const v1::PrepareRequest& request, const v1::Device& device) {
  std::shared_ptr<Task> replaced;  // destroyed, and so killed, outside the lock
  MutexLock lock(mutex_);
  const auto present = task_by_device_.find(device.name());
  if (present != task_by_device_.end()) {
    replaced = present->second;
    if (replaced->id == request.task_id()) return Admission{.task = replaced, .is_repeat = true};
    if (replaced->attempt > request.attempt()) {
      return absl::FailedPreconditionError(absl::StrFormat("device %s runs attempt %d, which is newer than %d",
                                                           device.name(), replaced->attempt, request.attempt()));
    }
  }
  auto task = std::make_shared<Task>();
  task->id = request.task_id();
  task->attempt = request.attempt();
  ASSIGN_OR_RETURN(task->worker, WorkerProcess::Start({.program = options_.worker_program,
                                                       .name = absl::StrCat(options_.node_name, "/", device.name())}));
  if (replaced != nullptr) replaced->worker->Kill();
  task_by_device_[device.name()] = task;
  return Admission{.task = task};
}

absl::StatusOr<v1::PrepareResponse> Supervisor::Prepare(const v1::PrepareRequest& request, absl::Time deadline) {
  const auto device = std::find_if(options_.devices.begin(), options_.devices.end(),
                                   [&](const v1::Device& d) { return d.name() == request.device(); });
  if (device == options_.devices.end()) {
    return absl::NotFoundError(absl::StrFormat("node %s has no device %s", options_.node_name, request.device()));
  }
  ASSIGN_OR_RETURN(const Admission admission, Admit(request, *device));
  const std::shared_ptr<Task> task = admission.task;
  if (admission.is_repeat) {
    MutexLock lock(mutex_);
    if (changed_.WaitUntil(mutex_, deadline, [&] { return task->prepared.has_value(); })) return *task->prepared;
    return absl::DeadlineExceededError(absl::StrCat("task ", task->id, " is still being prepared"));
  }
  v1::WorkerCommand command;
  v1::PrepareWorker& prepare = *command.mutable_prepare();
  *prepare.mutable_request() = request;
  *prepare.mutable_device() = *device;
  prepare.mutable_network_devices()->Add(options_.network_devices.begin(), options_.network_devices.end());
  prepare.set_links(options_.links);
  (void)task->worker->Send(command);  // if the worker is gone, its end is the reply
  absl::StatusOr<v1::PrepareResponse> response = AwaitPrepared(*task, deadline);
  if (!response.ok()) Forget(task);
  MutexLock lock(mutex_);
  task->prepared = response;
  changed_.NotifyAll();
  return response;
}

absl::StatusOr<v1::PrepareResponse> Supervisor::AwaitPrepared(Task& task, absl::Time deadline) {
  while (true) {
    ASSIGN_OR_RETURN(const v1::WorkerReply reply, task.worker->Next(deadline));
    if (reply.has_prepared()) return reply.prepared();
    if (reply.has_failed()) return ToStatus(reply.failed());
    if (reply.event().has_finished()) return ToStatus(reply.event().finished());
  }
}

absl::Status Supervisor::Run(const std::string& task_id, const std::vector<std::string>& addresses,
                             const std::function<bool(const v1::WorkerEvent&)>& on_event,
                             const std::function<bool()>& keep_going) {
  std::shared_ptr<Task> task;
  {
    MutexLock lock(mutex_);
    for (const auto& [device, candidate] : task_by_device_) {
      if (candidate->id == task_id && candidate->prepared && candidate->prepared->ok()) task = candidate;
    }
    if (task == nullptr) return absl::NotFoundError(absl::StrCat("no prepared task ", task_id));
    if (task->started) return absl::FailedPreconditionError(absl::StrCat("task ", task_id, " was started before"));
    task->started = true;
  }
  v1::WorkerCommand command;
  command.mutable_start();
  for (const std::string& address : addresses) command.mutable_start()->add_data_plane_addresses(address);
  (void)task->worker->Send(command);
  absl::Status result = absl::CancelledError(absl::StrCat("task ", task_id, " was stopped"));
  while (keep_going()) {
    const absl::StatusOr<v1::WorkerReply> reply = task->worker->Next(Now() + kLookAroundEvery);
    if (absl::IsDeadlineExceeded(reply.status())) continue;
    if (!reply.ok()) {
      result = reply.status();
      break;
    }
    if (!reply->has_event()) continue;
    const bool wanted = on_event(reply->event());
    if (reply->event().has_finished()) {
      result = absl::OkStatus();
      break;
    }
    if (!wanted) break;
  }
  Forget(task);
  return result;
}

void Supervisor::Forget(const std::shared_ptr<Task>& task) {
  task->worker->Kill();
  MutexLock lock(mutex_);
  std::erase_if(task_by_device_, [&](const auto& entry) { return entry.second == task; });
}

void Supervisor::Stop(const std::string& task_id) {
  std::shared_ptr<Task> task;
  {
    MutexLock lock(mutex_);
    for (const auto& [device, candidate] : task_by_device_) {
      if (candidate->id == task_id) task = candidate;
    }
  }
  if (task != nullptr) Forget(task);
}

void Supervisor::StopAll() {
  std::map<std::string, std::shared_ptr<Task>> all;
  {
    MutexLock lock(mutex_);
    all.swap(task_by_device_);
  }
  for (const auto& [device, task] : all) task->worker->Kill();
}

}  // namespace medley
