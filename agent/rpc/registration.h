#pragma once
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/time/time.h"
#include "proto/medley/v1/coordinator.grpc.pb.h"
#include "runtime/base/mutex.h"

namespace medley {

// Keeps a node registered: announces it, renews its lease, and starts over when the lease is lost. Work must not outlive
// its lease, since the coordinator gives it to others: `on_lost` is called when no renewal succeeded within the lease.
//
// Owns a thread, which calls `on_lost`. The destructor ends it within one rpc's deadline.
class Registration {
 public:
  Registration(std::string coordinator_address, v1::Node node, std::function<void()> on_lost);
  ~Registration();

 private:
  enum class Outcome { kRenewed, kUnreachable, kUnknown };
  void Loop();
  bool Register();
  Outcome Renew();
  void Sleep(absl::Duration time);

  const std::string coordinator_address_;
  const v1::Node node_;
  const uint64_t incarnation_;
  const std::function<void()> on_lost_;
  std::unique_ptr<v1::Registry::Stub> stub_;
  absl::Duration lease_ = absl::Seconds(6);
  std::string last_complaint_;
  Mutex mutex_;
  ConditionVariable changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace medley
