#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "agent/supervisor/event_log.h"
#include "agent/supervisor/worker_process.h"
#include "proto/medley/v1/agent.pb.h"
#include "proto/medley/v1/cluster.pb.h"
#include "proto/medley/v1/coordinator.pb.h"
#include "runtime/base/mutex.h"
#include "runtime/log/log.h"

namespace medley {

// The tasks of a node's devices, each in a worker of its own: at most one a device, the newest attempt wins.
// A task goes on whether or not anybody listens, until it ends, is stopped or replaced; what it said is kept
// until then.
//
// Workers are pinged, and end themselves when they hear nothing of their agent for a lease. One that answers
// no ping, or gets nothing done for its task's silence_seconds although it waits for nobody, is killed.
//
// Thread-safe; Prepare and Follow block.
class Supervisor {
 public:
  struct Options {
    std::string node_name;
    std::string worker_program;
    std::vector<v1::Device> devices;
    std::vector<std::string> network_devices;
    std::string links;
    absl::Duration lease = absl::Seconds(6);            // of the first workers; see SetLease
    absl::Duration default_silence = absl::Minutes(2);  // of a request without silence_seconds
    absl::Duration gone_patience = absl::Minutes(1);    // that a killed worker may take to be no more
  };
  explicit Supervisor(Options options);
  ~Supervisor();

  // Blocks until the worker is ready, or the preparation has failed. See Agent.Prepare for the errors, but
  // for a worker that died, which is Unavailable here. DeadlineExceeded, too: it was not ready by `deadline`,
  // and is stopped.
  absl::StatusOr<v1::PrepareResponse> Prepare(const v1::PrepareRequest& request, absl::Time deadline);

  // Lets the task's worker go, unless it goes already, and hands its events with numbers above
  // request.after_event on until the last one, `finished`. Cancelled: the task was stopped, or `keep_going`,
  // asked several times a second, or `on_event` said no; the worker is not touched then. See Agent.Start for
  // the other errors.
  absl::Status Follow(const v1::StartRequest& request,
                      const std::function<bool(const v1::WorkerEvent&)>& on_event,
                      const std::function<bool()>& keep_going);

  // Ends the task's worker, if there is one.
  void Stop(const std::string& task_id);
  void StopAll();
  // Asks the task's worker to end after its step, with a checkpoint. Once, however often it is called. NotFound: no such task, or its
  // worker has ended, or is not there yet.
  absl::Status FinishEarly(const std::string& task_id);

  // What the threads of the task's worker are doing. NotFound: no such task, or its worker has ended; DeadlineExceeded: it has not
  // answered by `deadline`.
  absl::StatusOr<std::string> Stacks(const std::string& task_id, absl::Time deadline);

  // As Agent.TraceTask, which says what may go wrong; the worker has time until `deadline`.
  absl::StatusOr<v1::TraceTaskResponse> Trace(const v1::TraceTaskRequest& request, absl::Time deadline);

  // What the workers are at, and those that have ended, whose events are kept: for the coordinator.
  std::vector<v1::AgentTask> Tasks();
  // Of these, the ones whose worker has not ended, or whose end is still being told to who follows them.
  std::vector<v1::AgentTask> TasksAtWork();

  // How long workers prepared from now on go on without hearing of this agent.
  void SetLease(absl::Duration lease);

 private:
  struct Task {
    std::string id, device;
    LogFields about;
    uint64_t attempt = 0;
    absl::Duration lease, silence;
    bool starting = true;                                         // whether it gets a worker is not known yet
    std::unique_ptr<WorkerProcess> worker;                        // never changes once that is known
    std::optional<absl::StatusOr<v1::PrepareResponse>> prepared;  // the answer, once there is one
    EventLog events;
    bool addressed = false;  // its worker was told its task
    bool started = false;
    bool asked_to_finish = false;
    bool ended = false;    // `finished` is the last of its events
    bool stopped = false;  // nobody is to hear of it any more
    int followers = 0;
    absl::Time last_pong, last_progress;
    uint64_t progress = 0, allocated_bytes = 0;
    std::string activity;
    std::string stacks;        // the newest answer
    uint64_t stacks_told = 0;  // answers so far
    uint64_t traces_asked = 0;
    v1::TraceAnswer trace_answer;  // the newest
    std::thread reader;            // of the worker's replies
    ~Task();
  };
  struct Admission {
    std::shared_ptr<Task> task;
    bool is_repeat = false;  // another call prepares it, or has
  };
  // Takes the device from an older task, waits until all that had it are gone, and starts a worker.
  absl::StatusOr<Admission> Admit(const v1::PrepareRequest& request, const v1::Device& device);
  absl::StatusOr<std::unique_ptr<WorkerProcess>> StartWorker(const std::string& device);
  void ReadReplies(Task& task);
  static void LogEnd(const Task& task, const absl::Status& status);
  void Note(Task& task, const v1::WorkerReply& reply) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::shared_ptr<Task> Find(const std::string& task_id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static v1::AgentTask Describe(const Task& task);
  // Takes it out of the table; its worker is killed.
  void Drop(const std::shared_ptr<Task>& task) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Watch();
  void WatchTask(Task& task, absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  Mutex mutex_;
  ConditionVariable changed_;  // of a task's answer, events and end
  absl::Duration lease_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::shared_ptr<Task>> task_by_device_ ABSL_GUARDED_BY(mutex_);
  // By device: tasks whose workers were killed and may not be gone yet, or are still being started, to be killed then.
  std::multimap<std::string, std::shared_ptr<Task>> dropped_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread watch_;
};

}  // namespace medley
