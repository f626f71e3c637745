#include "agent/supervisor/supervisor.h"

#include <algorithm>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/base/clock.h"
#include "runtime/base/status_macros.h"
#include "runtime/log/request_id.h"

namespace medley {
namespace {

constexpr absl::Duration kLookAroundEvery = absl::Milliseconds(100);
// A worker that answers no ping for so many leases is stopped, or its machine is in trouble.
constexpr int kLeasesWithoutPong = 5;
constexpr absl::Duration kLeastWithoutPong = absl::Seconds(15);
constexpr size_t kEventsAtOnce = 256;

absl::Status ToStatus(const v1::Finished& finished) {
  return absl::Status(static_cast<absl::StatusCode>(finished.code()), finished.message());
}

// What lines about a task are about.
LogFields FieldsOf(const v1::PrepareRequest& request, const std::string& node) {
  if (!request.has_train()) return {.node = node};
  const v1::TrainTask& train = request.train();
  return {.job = train.job_id(),
          .attempt = train.job_attempt(),
          .rank = static_cast<int>(train.rank()),
          .node = node};
}

std::string Rounded(absl::Duration duration) {
  return absl::FormatDuration(absl::Trunc(duration, absl::Seconds(1)));
}

}  // namespace

Supervisor::Task::~Task() {
  if (worker != nullptr) worker->Kill();
  if (reader.joinable()) reader.join();
}

Supervisor::Supervisor(Options options)
    : options_(std::move(options)), lease_(options_.lease), watch_([this] { Watch(); }) {}

Supervisor::~Supervisor() {
  StopAll();
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  watch_.join();
  // Ends without the lock, which their threads take.
  std::multimap<std::string, std::shared_ptr<Task>> dropped;
  MutexLock lock(mutex_);
  dropped.swap(dropped_);
}

void Supervisor::SetLease(absl::Duration lease) {
  MutexLock lock(mutex_);
  lease_ = lease;
}

std::shared_ptr<Supervisor::Task> Supervisor::Find(const std::string& task_id) {
  for (const auto& [device, task] : task_by_device_) {
    if (task->id == task_id) return task;
  }
  return nullptr;
}

void Supervisor::Drop(const std::shared_ptr<Task>& task) {
  task->stopped = true;
  if (task->worker != nullptr) task->worker->Kill("its task was stopped");
  std::erase_if(task_by_device_, [&](const auto& entry) { return entry.second == task; });
  dropped_.emplace(task->device, task);
  changed_.NotifyAll();
}

absl::StatusOr<std::unique_ptr<WorkerProcess>> Supervisor::StartWorker(const std::string& device) {
  std::vector<std::shared_ptr<Task>> before;
  {
    MutexLock lock(mutex_);
    const auto [begin, end] = dropped_.equal_range(device);
    // They stay in the table, until Watch finds them gone: another call for this device waits for them, too.
    for (auto entry = begin; entry != end; ++entry) before.push_back(entry->second);
  }
  // A process with gigabytes takes a while to give them back; until then its successor finds no room.
  const absl::Time deadline = Now() + options_.gone_patience;
  for (const std::shared_ptr<Task>& task : before) {
    {
      MutexLock lock(mutex_);
      if (!changed_.WaitUntil(mutex_, deadline, [&] { return !task->starting; })) {
        return absl::UnavailableError(absl::StrCat("task ", task->id, ", which had ", options_.node_name, "/",
                                                   device,
                                                   " before, was stopped and is still being started"));
      }
    }
    if (task->worker == nullptr || task->worker->AwaitGone(deadline)) continue;
    return absl::UnavailableError(absl::StrCat("process ", task->worker->pid(), ", which had ",
                                               options_.node_name, "/", device,
                                               " before, was killed and does not end"));
  }
  return WorkerProcess::Start(
      {.program = options_.worker_program, .name = absl::StrCat(options_.node_name, "/", device)});
}

absl::StatusOr<Supervisor::Admission> Supervisor::Admit(const v1::PrepareRequest& request,
                                                        const v1::Device& device) {
  auto task = std::make_shared<Task>();
  {
    MutexLock lock(mutex_);
    const auto present = task_by_device_.find(device.name());
    if (present != task_by_device_.end()) {
      const std::shared_ptr<Task> replaced = present->second;
      if (replaced->id == request.task_id()) return Admission{.task = replaced, .is_repeat = true};
      if (replaced->attempt > request.attempt()) {
        return absl::FailedPreconditionError(
            absl::StrFormat("device %s runs attempt %d, which is newer than %d", device.name(),
                            replaced->attempt, request.attempt()));
      }
      Drop(replaced);
    }
    task->id = request.task_id();
    task->device = device.name();
    task->about = FieldsOf(request, options_.node_name);
    task->attempt = request.attempt();
    task->lease = lease_;
    task->silence =
        request.silence_seconds() > 0 ? absl::Seconds(request.silence_seconds()) : options_.default_silence;
    task_by_device_[device.name()] = task;
  }
  absl::StatusOr<std::unique_ptr<WorkerProcess>> worker = StartWorker(device.name());
  MutexLock lock(mutex_);
  task->starting = false;
  changed_.NotifyAll();
  if (!worker.ok()) {
    LogWarning(absl::StrCat("task ", task->id, " cannot be prepared: ", worker.status().message()),
               task->about);
    task->prepared = worker.status();
    std::erase_if(task_by_device_, [&](const auto& entry) { return entry.second == task; });
    return worker.status();
  }
  task->worker = *std::move(worker);
  LogInfo(
      absl::StrCat("task ", task->id, " is prepared on ", task->device, " by process ", task->worker->pid()),
      task->about);
  task->last_pong = task->last_progress = Now();
  if (task->stopped) task->worker->Kill("its task was stopped");
  task->reader = std::thread([this, t = task.get()] { ReadReplies(*t); });
  return Admission{.task = task};
}

absl::StatusOr<v1::PrepareResponse> Supervisor::Prepare(const v1::PrepareRequest& request,
                                                        absl::Time deadline) {
  const auto device = std::find_if(options_.devices.begin(), options_.devices.end(),
                                   [&](const v1::Device& d) { return d.name() == request.device(); });
  if (device == options_.devices.end()) {
    return absl::NotFoundError(
        absl::StrFormat("node %s has no device %s", options_.node_name, request.device()));
  }
  ASSIGN_OR_RETURN(const Admission admission, Admit(request, *device));
  const std::shared_ptr<Task> task = admission.task;
  if (!admission.is_repeat) {
    v1::WorkerCommand command;
    v1::PrepareWorker& prepare = *command.mutable_prepare();
    *prepare.mutable_request() = request;
    *prepare.mutable_device() = *device;
    prepare.mutable_network_devices()->Add(options_.network_devices.begin(), options_.network_devices.end());
    prepare.set_links(options_.links);
    prepare.set_lease_seconds(absl::ToDoubleSeconds(task->lease));
    prepare.set_node(options_.node_name);
    prepare.set_request_id(CurrentRequestId());
    (void)task->worker->Send(command);  // if the worker is gone, its end is the reply
  }
  MutexLock lock(mutex_);
  task->addressed |= !admission.is_repeat;
  const bool answered = changed_.WaitUntil(mutex_, deadline, [&] { return task->prepared.has_value(); });
  if (answered && task->prepared->ok()) return **task->prepared;
  if (answered && admission.is_repeat) return task->prepared->status();
  const absl::Status failure =
      answered ? task->prepared->status()
               : absl::DeadlineExceededError(absl::StrCat("task ", task->id, " is still being prepared"));
  if (!admission.is_repeat && !task->stopped) Drop(task);
  return failure;
}

void Supervisor::ReadReplies(Task& task) {
  while (true) {
    const absl::StatusOr<v1::WorkerReply> reply = task.worker->Next(absl::InfiniteFuture());
    MutexLock lock(mutex_);
    if (reply.ok()) {
      Note(task, *reply);
      continue;
    }
    // Everything has been read.
    if (!task.prepared) task.prepared = absl::UnavailableError("the worker has ended");
    task.ended = true;
    changed_.NotifyAll();
    return;
  }
}

void Supervisor::LogEnd(const Task& task, const absl::Status& status) {
  if (status.ok()) {
    LogInfo(absl::StrCat("task ", task.id, " has ended"), task.about);
  } else {
    LogWarning(absl::StrCat("task ", task.id, " has failed: ", status.message()), task.about);
  }
}

void Supervisor::Note(Task& task, const v1::WorkerReply& reply) {
  const absl::Time now = Now();
  if (reply.has_pong()) {
    const v1::Pong& pong = reply.pong();
    if (pong.progress() != task.progress || pong.waits_for_peers()) task.last_progress = now;
    task.last_pong = now;
    task.progress = pong.progress();
    task.activity = pong.activity();
    task.allocated_bytes = pong.allocated_bytes();
    return;
  }
  task.last_pong = now;
  if (reply.has_stacks()) {  // which is no progress
    task.stacks = reply.stacks();
    ++task.stacks_told;
    changed_.NotifyAll();
    return;
  }
  if (reply.has_trace()) {  // nor is this
    task.trace_answer = reply.trace();
    changed_.NotifyAll();
    return;
  }
  task.last_progress = now;
  if (reply.has_prepared()) task.prepared = reply.prepared();
  if (reply.has_failed()) {
    task.prepared = ToStatus(reply.failed());
    LogEnd(task, ToStatus(reply.failed()));
  }
  if (reply.has_event()) {
    const v1::WorkerEvent& event = reply.event();
    if (event.has_finished() && !task.prepared) task.prepared = ToStatus(event.finished());
    if (event.has_finished()) task.ended = true;
    if (event.has_finished() && !task.stopped) LogEnd(task, ToStatus(event.finished()));
    // That a worker which was stopped is gone is no news of its own.
    if (!(event.has_finished() && task.stopped)) task.events.Add(event);
  }
  changed_.NotifyAll();
}

absl::Status Supervisor::Follow(const v1::StartRequest& request,
                                const std::function<bool(const v1::WorkerEvent&)>& on_event,
                                const std::function<bool()>& keep_going) {
  std::shared_ptr<Task> task;
  bool starts = false;
  {
    MutexLock lock(mutex_);
    task = Find(request.task_id());
    const bool ready = task != nullptr && task->prepared && task->prepared->ok();
    if (!ready || (request.only_follow() && !task->started)) {
      return absl::NotFoundError(absl::StrCat("no ", request.only_follow() ? "started" : "prepared", " task ",
                                              request.task_id(), " on node ", options_.node_name));
    }
    starts = !task->started;
    task->started = true;
    ++task->followers;
  }
  const absl::Cleanup leaves = [&] {
    MutexLock lock(mutex_);
    --task->followers;
  };
  if (starts) {
    LogInfo(absl::StrCat("task ", task->id, " begins"), task->about);
    v1::WorkerCommand command;
    *command.mutable_start()->mutable_data_plane_addresses() = request.data_plane_addresses();
    (void)task->worker->Send(command);
  }
  uint64_t heard = request.after_event();
  while (keep_going()) {
    std::vector<v1::WorkerEvent> events;
    {
      MutexLock lock(mutex_);
      changed_.WaitUntil(mutex_, Now() + kLookAroundEvery,
                         [&] { return task->stopped || task->ended || task->events.newest() > heard; });
      events = task->events.After(heard, kEventsAtOnce);
      if (events.empty() && task->stopped)
        return absl::CancelledError(absl::StrCat("task ", task->id, " was stopped"));
      if (events.empty() && task->ended) return absl::OkStatus();  // its end was heard before
    }
    for (const v1::WorkerEvent& event : events) {
      if (!on_event(event)) return absl::CancelledError("nobody listens any more");
      if (event.has_finished()) return absl::OkStatus();
      heard = event.number();
    }
  }
  return absl::CancelledError("nobody listens any more");
}

void Supervisor::Stop(const std::string& task_id) {
  MutexLock lock(mutex_);
  const std::shared_ptr<Task> task = Find(task_id);
  if (task == nullptr) return;
  if (!task->ended) LogInfo(absl::StrCat("task ", task->id, " is stopped"), task->about);
  Drop(task);
}

void Supervisor::StopAll() {
  MutexLock lock(mutex_);
  while (!task_by_device_.empty()) Drop(std::shared_ptr<Task>(task_by_device_.begin()->second));
}

absl::Status Supervisor::FinishEarly(const std::string& task_id) {
  std::shared_ptr<Task> task;
  {
    MutexLock lock(mutex_);
    task = Find(task_id);
    if (task != nullptr && task->asked_to_finish) return absl::OkStatus();
    if (task == nullptr || task->worker == nullptr || task->ended)
      return absl::NotFoundError(absl::StrCat("no worker runs task ", task_id));
    task->asked_to_finish = true;
  }
  LogInfo(absl::StrCat("task ", task->id, " is to end after its step, with a checkpoint"), task->about);
  v1::WorkerCommand command;
  command.mutable_finish_early();
  (void)task->worker->Send(command);  // if the worker is gone, its end is the reply
  return absl::OkStatus();
}

absl::StatusOr<std::string> Supervisor::Stacks(const std::string& task_id, absl::Time deadline) {
  std::shared_ptr<Task> task;
  uint64_t told = 0;
  {
    MutexLock lock(mutex_);
    task = Find(task_id);
    if (task == nullptr || task->worker == nullptr || task->ended)
      return absl::NotFoundError(absl::StrCat("no worker runs task ", task_id));
    told = task->stacks_told;
  }
  v1::WorkerCommand command;
  command.mutable_describe_stacks();
  RETURN_IF_ERROR(task->worker->Send(command));
  MutexLock lock(mutex_);
  const bool answered = changed_.WaitUntil(
      mutex_, deadline, [&] { return task->stacks_told > told || task->ended || task->stopped; });
  if (task->stacks_told > told) return task->stacks;
  if (!answered) return absl::DeadlineExceededError("the worker does not answer");
  return absl::NotFoundError(absl::StrCat("the worker of task ", task_id, " has ended"));
}

absl::StatusOr<v1::TraceTaskResponse> Supervisor::Trace(const v1::TraceTaskRequest& request,
                                                        absl::Time deadline) {
  std::shared_ptr<Task> task;
  v1::WorkerCommand command;
  v1::TraceSteps& asked = *command.mutable_trace();
  {
    MutexLock lock(mutex_);
    task = Find(request.task_id());
    if (task == nullptr || task->worker == nullptr || task->ended)
      return absl::NotFoundError(absl::StrCat("no worker runs task ", request.task_id()));
    asked.set_number(++task->traces_asked);
  }
  asked.set_first_step(request.first_step());
  asked.set_steps(request.steps());
  RETURN_IF_ERROR(task->worker->Send(command));
  MutexLock lock(mutex_);
  const auto is_answered = [&] { return task->trace_answer.number() >= asked.number(); };
  const bool heard =
      changed_.WaitUntil(mutex_, deadline, [&] { return is_answered() || task->ended || task->stopped; });
  if (!heard) return absl::DeadlineExceededError("the worker does not answer");
  if (!is_answered()) return absl::NotFoundError(absl::StrCat("the worker of task ", task->id, " has ended"));
  if (task->trace_answer.number() != asked.number())
    return absl::AbortedError("another request has come after this one");
  if (task->trace_answer.answer().current_step() == 0)
    return absl::NotFoundError(absl::StrCat("task ", task->id, " does not train"));
  if (task->trace_answer.answer().accepted())
    LogInfo(absl::StrCat("steps ", request.first_step(), " to ", request.first_step() + request.steps() - 1,
                         " are traced"),
            task->about);
  return task->trace_answer.answer();
}

v1::AgentTask Supervisor::Describe(const Task& task) {
  v1::AgentTask described;
  described.set_task_id(task.id);
  described.set_attempt(task.attempt);
  described.set_device(task.device);
  described.set_started(task.started);
  described.set_allocated_bytes(task.allocated_bytes);
  return described;
}

std::vector<v1::AgentTask> Supervisor::Tasks() {
  MutexLock lock(mutex_);
  std::vector<v1::AgentTask> tasks;
  for (const auto& [device, task] : task_by_device_) tasks.push_back(Describe(*task));
  return tasks;
}

std::vector<v1::AgentTask> Supervisor::TasksAtWork() {
  MutexLock lock(mutex_);
  std::vector<v1::AgentTask> tasks;
  for (const auto& [device, task] : task_by_device_) {
    if (!task->ended || task->followers > 0) tasks.push_back(Describe(*task));
  }
  return tasks;
}

void Supervisor::Watch() {
  absl::Time looked = Now();
  while (true) {
    std::vector<std::shared_ptr<Task>> over;  // ends without the lock, which their threads take
    MutexLock lock(mutex_);
    const absl::Duration pause = std::clamp(lease_ / 6, absl::Milliseconds(20), absl::Seconds(1));
    if (changed_.WaitUntil(mutex_, looked + pause, [&] { return stopping_; })) return;
    const absl::Time now = Now();
    // This process was stopped for a while, and its workers had nobody to answer to.
    const absl::Duration away = now - looked - pause;
    looked = now;
    for (const auto& [device, task] : task_by_device_) {
      if (task->worker == nullptr || task->ended) continue;
      if (away > pause) {
        task->last_pong += away;
        task->last_progress += away;
      }
      WatchTask(*task, now);
    }
    for (auto dropped = dropped_.begin(); dropped != dropped_.end();) {
      const std::shared_ptr<Task>& task = dropped->second;
      const bool gone =
          !task->starting && (task->worker == nullptr || task->worker->AwaitGone(absl::InfinitePast()));
      if (gone) over.push_back(task);
      dropped = gone ? dropped_.erase(dropped) : std::next(dropped);
    }
  }
}

void Supervisor::WatchTask(Task& task, absl::Time now) {
  v1::WorkerCommand command;
  command.mutable_ping();
  if (task.addressed) task.worker->TrySend(command);
  const absl::Duration mute = now - task.last_pong, idle = now - task.last_progress;
  if (mute > std::max(kLeasesWithoutPong * task.lease, kLeastWithoutPong)) {
    task.worker->Kill(
        absl::StrCat("it answered nothing for ", Rounded(mute), " (stopped, or its machine is in trouble)"));
  } else if (idle > task.silence) {
    const std::string why = absl::StrCat("it got nothing done for ", Rounded(idle),
                                         task.activity.empty() ? "" : absl::StrCat(", at ", task.activity));
    if (!task.prepared)
      task.prepared = absl::DeadlineExceededError(
          absl::StrCat("the worker of ", options_.node_name, "/", task.device, ": ", why));
    task.worker->Kill(why);
    changed_.NotifyAll();
  }
}

}  // namespace medley
