#pragma once
#include <grpcpp/security/credentials.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "proto/medley/v1/coordinator.grpc.pb.h"
#include "runtime/base/stop_signal.h"

namespace medley {

// Keeps a node registered: announces it with the tasks that it runs, renews its lease, and announces it again
// when the lease is lost or the coordinator is another. Work goes on meanwhile: what has been given to others
// the coordinator names when it answers.
//
// Owns a thread, which calls the callbacks. The destructor says that the node leaves, and ends the thread,
// within seconds.
class Registration {
 public:
  struct Callbacks {
    std::function<std::vector<v1::AgentTask>()> tasks;     // what is to be announced
    std::function<void(const std::string& task_id)> stop;  // of a task that nobody waits for any more
    std::function<void(absl::Duration lease)> lease;       // as it is before others make it longer
    std::function<void()> abandon;                         // the coordinator was away for too long
  };
  struct Options {
    std::string coordinator_address;
    std::shared_ptr<grpc::ChannelCredentials> credentials;  // null: in the clear
    v1::Node node;
    absl::Duration work_without_coordinator = absl::Hours(24);
    absl::Duration leave_time = absl::Seconds(1);  // for the coordinator to answer that the node leaves
  };
  Registration(Options options, Callbacks callbacks);
  ~Registration();

  // Says that the node is about to leave, again and again until `end` while the coordinator is away or is another that
  // does not know the node yet. How many of the node's jobs save a checkpoint first, and are worth waiting for; 0 also if
  // nobody could be told. `is_asked_again` waits for so long at most; true: enough waited.
  int Leave(absl::Time end, absl::FunctionRef<bool(absl::Duration)> is_asked_again);

 private:
  enum class Outcome { kRenewed, kUnreachable, kUnknown };
  void Loop();
  bool Register();
  Outcome Renew();
  void Deregister();
  void Complain(const grpc::Status& status);

  const Options options_;
  const Callbacks callbacks_;
  const uint64_t incarnation_;
  std::unique_ptr<v1::Registry::Stub> stub_;
  absl::Duration lease_ = absl::Seconds(6);  // as it was told last
  absl::Time last_complaint_ = absl::InfinitePast();
  grpc::StatusCode complained_of_ = grpc::StatusCode::OK;
  StopSignal stop_;
  std::atomic<bool> leaving_ = false;
  std::thread thread_;
};

}  // namespace medley
