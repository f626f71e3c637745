#include "agent/rpc/registration.h"

#include <algorithm>
#include <random>

#include "runtime/base/clock.h"
#include "runtime/base/version.h"
#include "runtime/log/log.h"
#include "runtime/wire/grpc_channel.h"
#include "runtime/wire/grpc_status.h"

namespace medley {
namespace {

constexpr absl::Duration kRetryEvery = absl::Seconds(1);
constexpr absl::Duration kComplainEvery = absl::Minutes(1);
constexpr absl::Duration kRetryLeaveEvery = absl::Milliseconds(200);
constexpr absl::Duration kRegisterTime = absl::Seconds(3);

uint64_t RandomIncarnation() {
  std::random_device device;
  return static_cast<uint64_t>(device()) << 32 | device();
}

absl::Duration LeaseOf(double seconds) { return absl::Seconds(std::max(0.5, seconds)); }

void SetDeadline(grpc::ClientContext& context, absl::Duration timeout) {
  context.set_deadline(ToSystemClock(Now() + timeout));
}

}  // namespace

Registration::Registration(Options options, Callbacks callbacks)
    : options_(std::move(options)),
      callbacks_(std::move(callbacks)),
      incarnation_(RandomIncarnation()),
      stub_(v1::Registry::NewStub(
          OpenChannel(options_.coordinator_address, {.credentials = options_.credentials}))),
      thread_([this] { Loop(); }) {}

Registration::~Registration() {
  stop_.Stop();
  thread_.join();
}

void Registration::Loop() {
  bool registered = false, abandoned = false;
  absl::Time heard = Now();  // of the coordinator
  absl::Duration pause = absl::ZeroDuration();
  while (stop_.SleepUnlessStopped(pause)) {
    if (!abandoned && Now() - heard > std::max(options_.work_without_coordinator, lease_)) {
      LogWarning(absl::StrCat("the coordinator was away for ", absl::FormatDuration(Now() - heard),
                              ": all work is stopped"));
      callbacks_.abandon();
      abandoned = true;
    }
    if (!registered) {
      registered = Register();
      if (registered) heard = Now(), abandoned = false;
      pause = registered ? lease_ / 3 : kRetryEvery;
      continue;
    }
    const Outcome outcome = Renew();
    if (outcome == Outcome::kRenewed) {
      heard = Now(), abandoned = false;
      pause = lease_ / 3;
    } else if (outcome == Outcome::kUnknown) {
      LogWarning(
          absl::StrCat("the lease of ", options_.node.name(), " is not held any more; registering again"));
      registered = false;
      pause = absl::ZeroDuration();
    } else {
      pause = std::min(kRetryEvery, lease_ / 6);
    }
  }
  if (registered) Deregister();
}

void Registration::Complain(const grpc::Status& status) {
  // Once, not every second, although what is said may count seconds.
  if (status.error_code() == complained_of_ && Now() - last_complaint_ < kComplainEvery) return;
  complained_of_ = status.error_code();
  last_complaint_ = Now();
  LogWarning(absl::StrCat("cannot register at ", options_.coordinator_address, ": ", status.error_message(),
                          "; trying on"));
}

bool Registration::Register() {
  v1::RegisterRequest request;
  *request.mutable_node() = options_.node;
  request.set_incarnation(incarnation_);
  request.set_medley_version(kMedleyVersion);
  request.set_leaving(leaving_);
  for (v1::AgentTask& task : callbacks_.tasks()) *request.add_tasks() = std::move(task);
  v1::RegisterResponse response;
  grpc::ClientContext context;
  SetDeadline(context, kRegisterTime);
  const grpc::Status status = stub_->Register(&context, request, &response);
  if (!status.ok()) {
    Complain(status);
    return false;
  }
  lease_ = LeaseOf(response.lease_seconds());
  complained_of_ = grpc::StatusCode::OK;
  callbacks_.lease(lease_);
  for (const std::string& task : response.stop_tasks()) {
    LogInfo(absl::StrCat("task ", task, " is stopped: nobody waits for it"));
    callbacks_.stop(task);
  }
  LogInfo(absl::StrCat("registered as ", options_.node.name(), " at ", options_.coordinator_address));
  return true;
}

Registration::Outcome Registration::Renew() {
  v1::RenewRequest request;
  request.set_node(options_.node.name());
  request.set_incarnation(incarnation_);
  v1::RenewResponse response;
  grpc::ClientContext context;
  SetDeadline(context, std::min(lease_ / 3, kRegisterTime));
  const grpc::Status status = stub_->Renew(&context, request, &response);
  if (status.ok()) {
    if (response.lease_seconds() > 0) lease_ = LeaseOf(response.lease_seconds());
    return Outcome::kRenewed;
  }
  return status.error_code() == grpc::StatusCode::NOT_FOUND ? Outcome::kUnknown : Outcome::kUnreachable;
}

int Registration::Leave(absl::Time end, absl::FunctionRef<bool(absl::Duration)> is_asked_again) {
  leaving_ = true;  // what is registered from now on says so, too
  v1::LeaveRequest request;
  request.set_node(options_.node.name());
  request.set_incarnation(incarnation_);
  for (bool is_first = true;; is_first = false) {
    v1::LeaveResponse response;
    grpc::ClientContext context;
    SetDeadline(context, options_.leave_time);
    const grpc::Status status = stub_->Leave(&context, request, &response);
    if (status.ok()) return static_cast<int>(response.leaving_jobs());
    const bool may_change = status.error_code() == grpc::StatusCode::UNAVAILABLE ||
                            status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED ||
                            status.error_code() == grpc::StatusCode::NOT_FOUND;
    if (is_first || !may_change) {
      LogWarning(absl::StrCat("cannot tell ", options_.coordinator_address, " that ", options_.node.name(),
                              " leaves: ", status.error_message(), may_change ? "; trying on" : ""));
    }
    if (!may_change || Now() >= end || is_asked_again(std::min(kRetryLeaveEvery, end - Now()))) return 0;
  }
}

void Registration::Deregister() {
  v1::DeregisterRequest request;
  request.set_node(options_.node.name());
  request.set_incarnation(incarnation_);
  v1::DeregisterResponse response;
  grpc::ClientContext context;
  SetDeadline(context, options_.leave_time);
  (void)stub_->Deregister(&context, request, &response);
}

}  // namespace medley
