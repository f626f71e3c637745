#pragma once
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "coordinator/orchestrator/agent_client.h"
#include "proto/medley/v1/coordinator.pb.h"
#include "runtime/base/mutex.h"

namespace medley {

// A training task as the script of FakeAgents sees it.
class FakeWorker {
 public:
  virtual ~FakeWorker() = default;
  virtual const v1::PrepareRequest& request() const = 0;
  virtual const std::string& agent_address() const = 0;
  virtual void Say(const v1::WorkerEvent& event) = 0;
  // Blocks until the task is stopped, asked to finish early, or its agent is gone.
  virtual void AwaitEnd() = 0;
  // Ends as a worker does that was asked to finish early: after a checkpoint of `step`. To be returned by the
  // script.
  virtual absl::Status FinishedAt(uint32_t step) = 0;
  virtual bool asked_to_finish() = 0;
  // Ends as a worker does that is killed: its agent says how. To be returned by the script.
  virtual absl::Status Die(const std::string& how) = 0;
};

// Agents in memory. Profiles answer at once with made-up times, and so do probes without a script; what
// training does is a script. Tasks go on whether or not anybody listens, as on real agents. Thread-safe; its
// end ends them.
class FakeAgents : public AgentClient {
 public:
  FakeAgents() = default;
  ~FakeAgents() override;

  // What a unit does from Start on; returns what its `finished` says. The default trains three steps. Like the next two, it is what tasks
  // do that are prepared from now on.
  using Training = std::function<absl::Status(FakeWorker&)>;
  void SetTraining(Training training);
  // What both ends of a probe do; what `finished` says. The default measures 10 us and 1 GB/s.
  void SetProbe(Training probe);
  // Likewise, of profiles. By default times that are made up.
  void SetProfile(Training profile);
  // How the preparation of a task ends; the default is OK.
  using Preparation = std::function<absl::Status(const v1::PrepareRequest&)>;
  void SetPreparation(Preparation preparation);
  // What units say of the data that they read; the default is nothing.
  using Fingerprint = std::function<std::string(const v1::PrepareRequest&)>;
  void SetFingerprint(Fingerprint fingerprint);
  // Which peers units name; the default is none.
  using Peers = std::function<std::vector<uint32_t>(const v1::PrepareRequest&)>;
  void SetPeers(Peers peers);

  // What a unit answers to TraceTask.
  using TraceAnswer = std::function<absl::StatusOr<v1::TraceTaskResponse>(const v1::TraceTaskRequest&)>;
  void SetTraceAnswer(TraceAnswer answer);

  // What Stop answers; unless it is OK, nothing else happens then. The default is OK.
  using StopAnswer = std::function<absl::Status(const v1::StopRequest&)>;
  void SetStopAnswer(StopAnswer answer);

  // From now on the agent does not answer; its tasks end with Unavailable.
  void TakeDown(const std::string& agent_address);
  void BringUp(const std::string& agent_address);

  // Task ids that were asked to stop at once.
  std::vector<std::string> stopped();
  // How many trainings were started.
  int begun();
  // How many tasks go on.
  int working();
  // Blocks until Stop was called for `task_id`, or a minute.
  void AwaitStop(const std::string& task_id);
  // Requests that Prepare was given, by kind, in order.
  std::vector<v1::PrepareRequest> trainings();
  std::vector<v1::PrepareRequest> requests();
  // Addresses that the coordinator keeps connections to.
  std::set<std::string> connected();
  int profiles();  // of devices alone
  // Requests that Start was given, in order.
  std::vector<v1::StartRequest> starts();
  int probes();
  // Blocks until that many training tasks have been prepared, or a minute.
  bool AwaitTrainings(size_t count);

  void KeepConnected(const std::string& agent_address) override;
  void Disconnect(const std::string& agent_address) override;
  // Answers before it returns, but where a script says how it ends.
  void Prepare(const std::string& agent_address, const PrepareParts& parts,
               Answered<v1::PrepareResponse> answered) override;
  // An agent that is down is tried again until `patience` is over. The task of one that is not begins, however soon nobody listens.
  std::unique_ptr<RunningTask> Start(const std::string& agent_address, const v1::StartRequest& request,
                                     absl::Duration patience, TaskListener listener) override;
  // One device, which says where it was asked.
  void DescribeKernels(const std::string& agent_address, absl::Time deadline,
                       Answered<v1::NodeKernels> answered) override;
  void DescribeStacks(const std::string& agent_address, const v1::DescribeStacksRequest& request,
                      absl::Time deadline, Answered<v1::DescribeStacksResponse> answered) override;
  // What SetTraceAnswer says, or an answer that accepts everything.
  void TraceTask(const std::string& agent_address, const v1::TraceTaskRequest& request, absl::Time deadline,
                 Answered<v1::TraceTaskResponse> answered) override;
  void CheckNode(const std::string& agent_address, const v1::CheckNodeRequest& request, absl::Time deadline,
                 Answered<v1::NodeCheck> answered) override;
  void Stop(const std::string& agent_address, const v1::StopRequest& request,
            std::function<void(const absl::Status&)> answered) override;

 private:
  bool IsDown(const std::string& agent_address);
  class Task;
  class Listener;
  // What the task does, as it is told now.
  Training ScriptOf(const v1::PrepareRequest& request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status StopTask(const std::string& agent_address, const v1::StopRequest& request);
  absl::StatusOr<std::shared_ptr<Task>> Begin(const std::string& agent_address,
                                              const v1::StartRequest& request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Mutex mutex_;
  ConditionVariable changed_;
  Training training_ ABSL_GUARDED_BY(mutex_);
  Training probe_ ABSL_GUARDED_BY(mutex_);
  Training profile_ ABSL_GUARDED_BY(mutex_);
  Preparation preparation_ ABSL_GUARDED_BY(mutex_);
  Fingerprint fingerprint_ ABSL_GUARDED_BY(mutex_);
  Peers peers_ ABSL_GUARDED_BY(mutex_);
  TraceAnswer trace_answer_ ABSL_GUARDED_BY(mutex_);
  StopAnswer stop_answer_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> down_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> stopped_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::PrepareRequest> requests_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Training> scripts_ ABSL_GUARDED_BY(mutex_);  // of tasks that are prepared, by id
  std::set<std::string> connected_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::StartRequest> starts_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::shared_ptr<Task>> tasks_ ABSL_GUARDED_BY(mutex_);  // by id, that were started
  std::set<std::string> finishing_ ABSL_GUARDED_BY(mutex_);  // tasks that were asked to, prepared or begun
  std::vector<std::thread> preparing_ ABSL_GUARDED_BY(mutex_);
};

// Events and requests.
v1::WorkerEvent MadeUpProfile(const v1::ProfileTask& task, const std::string& device_kind = "fake");
// The profile behind the turns with others of the host, if any are asked for, in which nobody slows anybody down.
std::vector<v1::WorkerEvent> MadeUpMeasurement(const v1::ProfileTask& task,
                                               const std::string& device_kind = "fake");
v1::WorkerEvent StepOf(uint32_t step, double loss, double seconds = 0.5);
v1::WorkerEvent CheckpointAt(uint32_t step, const std::string& path);
v1::WorkerEvent LinkOf(double latency_seconds, double bytes_per_second);
absl::Status TrainThreeSteps(FakeWorker& worker);
// Trains one step, then works until it is told to end; asked to finish early, with a checkpoint of step 2.
absl::Status TrainForEver(FakeWorker& worker);

// A node with `devices` CPU devices of one core and 1 GiB, of kind `kind`; its agent is at "<name>:1".
v1::RegisterRequest FakeNode(const std::string& name, int devices = 1, uint64_t incarnation = 1,
                             const std::string& kind = "fake");
// A tiny job; `max_restarts` 3.
v1::JobSpec FakeJob(const std::string& name);
// The job on exactly these devices ("node/device"), each with the whole model.
v1::JobSpec PinnedJob(const std::string& name, const std::vector<std::string>& devices);

}  // namespace medley
