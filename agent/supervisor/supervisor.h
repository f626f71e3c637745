#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "agent/supervisor/worker_process.h"
#include "proto/medley/v1/agent.pb.h"
#include "proto/medley/v1/cluster.pb.h"
#include "runtime/base/mutex.h"

namespace medley {

// The tasks of a node's devices, each in a worker of its own: at most one a device, the newest attempt wins.
// Thread-safe; Prepare and Run block.
class Supervisor {
 public:
  struct Options {
    std::string node_name;
    std::string worker_program;
    std::vector<v1::Device> devices;
    std::vector<std::string> network_devices;
    std::string links;
  };
  explicit Supervisor(Options options) : options_(std::move(options)) {}

  // See Agent.Prepare for the errors. DeadlineExceeded: the worker was not ready by then, and is stopped.
  absl::StatusOr<v1::PrepareResponse> Prepare(const v1::PrepareRequest& request, absl::Time deadline);

  // Lets the task's worker go and hands its events on until the last one, `finished`, which it also returns. When
  // `keep_going` says no, asked several times a second, or `on_event` does, the worker is stopped: Cancelled.
  // See Agent.Start for the other errors.
  absl::Status Run(const std::string& task_id, const std::vector<std::string>& addresses,
                   const std::function<bool(const v1::WorkerEvent&)>& on_event, const std::function<bool()>& keep_going);

  // Ends the task's worker, if there is one.
  void Stop(const std::string& task_id);
  void StopAll();

 private:
  struct Task {
    std::string id;
    uint64_t attempt = 0;
    std::unique_ptr<WorkerProcess> worker;
    std::optional<absl::StatusOr<v1::PrepareResponse>> prepared;  // the answer, once there is one
    bool started = false;
  };
  struct Admission {
    std::shared_ptr<Task> task;
    bool is_repeat = false;  // another call prepares it, or has
  };
  // Replaces an older task of the device by a new one.
  absl::StatusOr<Admission> Admit(const v1::PrepareRequest& request, const v1::Device& device);
  absl::StatusOr<v1::PrepareResponse> AwaitPrepared(Task& task, absl::Time deadline);
  void Forget(const std::shared_ptr<Task>& task);

  const Options options_;
  Mutex mutex_;
  ConditionVariable changed_;  // of Task::prepared
  std::map<std::string, std::shared_ptr<Task>> task_by_device_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace medley
