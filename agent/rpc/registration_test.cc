#include "agent/rpc/registration.h"

#include <grpcpp/server_builder.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <deque>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/mutex.h"

namespace medley {
namespace {

// A coordinator as an agent sees it that registers, renews and leaves, at a free port of the loopback.
class FakeCoordinator final : public v1::Registry::Service {
 public:
  // What Leave answers, one after another; then OK with `leaving_jobs`.
  FakeCoordinator(std::deque<grpc::StatusCode> refusals, uint32_t leaving_jobs)
      : leaving_jobs_(leaving_jobs), refusals_(std::move(refusals)) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~FakeCoordinator() override { server_->Shutdown(); }

  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }
  int leaves() {
    MutexLock lock(mutex_);
    return leaves_;
  }
  // From now on it is another, which knows nobody.
  void Forget() {
    MutexLock lock(mutex_);
    knows_node_ = false;
  }
  // Until the node has registered as one that leaves, or as one that does not.
  void AwaitRegistration(bool is_leaving) {
    MutexLock lock(mutex_);
    changed_.WaitUntil(mutex_, absl::InfiniteFuture(), [&] {
      return std::count(registrations_.begin(), registrations_.end(), is_leaving) > 0;
    });
  }

 private:
  grpc::Status Register(grpc::ServerContext*, const v1::RegisterRequest* request,
                        v1::RegisterResponse* response) override {
    MutexLock lock(mutex_);
    knows_node_ = true;
    registrations_.push_back(request->leaving());
    response->set_lease_seconds(0.5);
    changed_.NotifyAll();
    return grpc::Status::OK;
  }
  grpc::Status Renew(grpc::ServerContext*, const v1::RenewRequest*, v1::RenewResponse*) override {
    MutexLock lock(mutex_);
    return knows_node_ ? grpc::Status::OK : grpc::Status(grpc::StatusCode::NOT_FOUND, "who is that?");
  }
  grpc::Status Leave(grpc::ServerContext*, const v1::LeaveRequest*, v1::LeaveResponse* response) override {
    MutexLock lock(mutex_);
    ++leaves_;
    response->set_leaving_jobs(leaving_jobs_);
    if (refusals_.empty()) return grpc::Status::OK;
    const grpc::StatusCode refusal = refusals_.front();
    refusals_.pop_front();
    return {refusal, "not now"};
  }

  const uint32_t leaving_jobs_;
  Mutex mutex_;
  ConditionVariable changed_;
  std::deque<grpc::StatusCode> refusals_ ABSL_GUARDED_BY(mutex_);
  std::vector<bool> registrations_ ABSL_GUARDED_BY(mutex_);
  bool knows_node_ ABSL_GUARDED_BY(mutex_) = false;
  int leaves_ ABSL_GUARDED_BY(mutex_) = 0;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

Registration::Options OptionsAt(const FakeCoordinator& coordinator) {
  // Nothing is given up that a busy machine takes long to answer, so that all that is asked can be counted.
  Registration::Options options{.coordinator_address = coordinator.address(), .leave_time = absl::Minutes(1)};
  options.node.set_name("a");
  return options;
}

Registration::Callbacks NoTasks() {
  return {.tasks = [] { return std::vector<v1::AgentTask>(); },
          .stop = [](const std::string&) {},
          .lease = [](absl::Duration) {},
          .abandon = [] {}};
}

TEST_CASE("that a node leaves is said until a coordinator has heard it, or enough has been waited") {
  struct Case {
    std::deque<grpc::StatusCode> refusals;
    int asked_again_after;  // waits
    absl::Time end;
    int jobs, leaves;
  };
  constexpr auto kAway = grpc::StatusCode::UNAVAILABLE, kUnknown = grpc::StatusCode::NOT_FOUND;
  const Case c = GENERATE_COPY(values<Case>({
      {{}, 9, absl::InfiniteFuture(), 2, 1},
      {{kAway, grpc::StatusCode::DEADLINE_EXCEEDED, kUnknown}, 9, absl::InfiniteFuture(), 2, 4},
      {{kAway, kAway, kAway}, 2, absl::InfiniteFuture(), 0, 2},              // another signal has come
      {{kAway}, 9, absl::InfinitePast(), 0, 1},                              // there is no time
      {{grpc::StatusCode::UNIMPLEMENTED}, 9, absl::InfiniteFuture(), 0, 1},  // an older coordinator
  }));
  FakeCoordinator coordinator(c.refusals, 2);
  Registration registration(OptionsAt(coordinator), NoTasks());
  coordinator.AwaitRegistration(/*is_leaving=*/false);
  int waits = 0;
  CHECK(registration.Leave(c.end, [&](absl::Duration) { return ++waits == c.asked_again_after; }) == c.jobs);
  CHECK(coordinator.leaves() == c.leaves);
}

TEST_CASE("a coordinator that comes after a node has said that it leaves hears it with the registration") {
  FakeCoordinator coordinator({}, 0);
  Registration registration(OptionsAt(coordinator), NoTasks());
  coordinator.AwaitRegistration(/*is_leaving=*/false);
  (void)registration.Leave(absl::InfiniteFuture(), [](absl::Duration) { return false; });
  coordinator.Forget();
  coordinator.AwaitRegistration(/*is_leaving=*/true);
}

}  // namespace
}  // namespace medley
