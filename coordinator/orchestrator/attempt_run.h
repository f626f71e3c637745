#pragma once
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "coordinator/orchestrator/agent_client.h"
#include "runtime/base/mutex.h"

namespace medley {

// One task of an attempt, and where it runs.
struct AttemptTask {
  std::string device;  // "node/device", for messages
  std::string agent_address;
  v1::PrepareRequest request;                         // of one that is taken up: its task_id alone
  std::shared_ptr<const std::string> shared_request;  // PrepareParts::shared
  uint64_t after_event = 0;                           // of one that is taken up: what was heard of it before
};

// How an attempt ended.
struct AttemptEnd {
  absl::Status status;  // the root cause: what failed first, not what failed because of it; names the device
  std::string device;   // whose failure it was; empty if nobody's
  std::vector<std::string> unreachable_devices;  // all whose agents are gone, whatever the root cause
  bool prepared = false;                         // all tasks were
  bool stopped = false;  // it was asked to finish early, and did so after a checkpoint; `status` is OK
  bool left = false;     // nobody listens any more, and its tasks go on; `status` is OK
  // It is the coordinator's own store that failed, as on a full disk: nothing was tried, and nothing is said of devices.
  bool store_failed = false;
};

// Of what the store was asked for; one without a failure if it did that.
inline AttemptEnd EndOfStore(const absl::Status& status) {
  if (status.ok()) return {};
  return {.status = absl::UnavailableError(absl::StrCat("the coordinator's store: ", status.message())),
          .store_failed = true};
}

// Tasks that run together: all are prepared, then all are started with each other's addresses, then all end.
// The first failure ends the others. Used for training, link probes and profiles alike. Those that have peers
// are given a secret that is this attempt's alone. Has no threads of its own, however many tasks.
//
// Run, or TakeUp, blocks and one of them is called once; the others from any thread.
class AttemptRun {
 public:
  struct Callbacks {
    // All are prepared; a status that is not OK ends the attempt.
    std::function<absl::Status(const std::vector<v1::PrepareResponse>&)> prepared;
    std::function<void()> launched;                                     // all are prepared and started
    std::function<void(int task, const v1::WorkerEvent& event)> event;  // from any thread
  };
  AttemptRun(AgentClient& agents, std::vector<AttemptTask> tasks);
  ~AttemptRun();

  AttemptEnd Run(const Callbacks& callbacks);

  // Listens to tasks that were started by another run, whose coordinator is no more. Agents are waited for,
  // `patience` long.
  AttemptEnd TakeUp(const Callbacks& callbacks, absl::Duration patience);

  // Ends the attempt with `reason` as its status. Before Run, too; nothing happens once all tasks have ended, and without a failure.
  void Abort(const absl::Status& reason, const std::string& device = "");

  // Asks the tasks to end after their current step, with a checkpoint. Returns at once. Repeated, it asks again, another task, if the
  // one before has not taken it; nobody once one has.
  void FinishEarly();

  // Ends Run, and leaves the tasks alone if all have been prepared; else as Abort(Cancelled). Ends TakeUp, and its tasks
  // go on.
  void Leave();

  std::vector<std::string> TaskIds() const;

 private:
  struct Failure {
    int task = -1;  // -1: nobody's
    std::string device;
    absl::Status status;
    bool died = false;  // its worker, as the agent says, or the agent, as is seen from here
  };
  static int Rank(const Failure& failure);
  absl::Status GiveSecret();
  bool PrepareAll(std::vector<v1::PrepareResponse>& responses);
  bool AwaitPrepared(absl::Time deadline);
  void StartAll(const std::vector<v1::StartRequest>& requests, const Callbacks& callbacks,
                absl::Duration patience);
  void JoinAll();
  void Ended(int task, const absl::Status& status);
  void Fail(Failure failure);
  // Blocks until all have answered, or have not for a second.
  void StopAll();
  void Stop(int task, const v1::StopRequest& request);
  void AwaitStopped();
  AttemptEnd RootCause();

  AgentClient& agents_;
  std::vector<AttemptTask> tasks_;  // not changed once it runs
  mutable Mutex mutex_;
  ConditionVariable changed_;
  std::vector<Failure> failures_ ABSL_GUARDED_BY(mutex_);  // in the order in which they were seen
  std::vector<std::unique_ptr<RunningTask>> running_;      // parallel to tasks_; set by Run's thread
  std::set<int> unreachable_ ABSL_GUARDED_BY(mutex_);      // tasks whose agents are gone
  int stopping_ ABSL_GUARDED_BY(mutex_) = 0;               // tasks that have not answered to that yet
  int to_finish_ ABSL_GUARDED_BY(mutex_) = 0;              // the task that is asked next to finish early
  bool is_asking_to_finish_ ABSL_GUARDED_BY(mutex_) = false;
  bool will_finish_ ABSL_GUARDED_BY(mutex_) = false;  // a task has taken it
  int prepared_ ABSL_GUARDED_BY(mutex_) = 0;          // or failed to
  int ended_ ABSL_GUARDED_BY(mutex_) = 0;
  bool left_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;  // a task said so
};

}  // namespace medley
