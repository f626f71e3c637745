#include "agent/rpc/registration.h"

#include <grpcpp/create_channel.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <random>

#include "runtime/base/clock.h"
#include "runtime/rpc/grpc_status.h"

namespace medley {
namespace {

constexpr absl::Duration kRetryEvery = absl::Seconds(1);

std::shared_ptr<grpc::Channel> ChannelTo(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

uint64_t RandomIncarnation() {
  std::random_device device;
  return static_cast<uint64_t>(device()) << 32 | device();
}

void SetDeadline(grpc::ClientContext& context, absl::Duration timeout) {
  context.set_deadline(ToSystemClock(Now() + timeout));
}

}  // namespace

Registration::Registration(std::string coordinator_address, v1::Node node, std::function<void()> on_lost)
    : coordinator_address_(std::move(coordinator_address)),
      node_(std::move(node)),
      incarnation_(RandomIncarnation()),
      on_lost_(std::move(on_lost)),
      stub_(v1::Registry::NewStub(ChannelTo(coordinator_address_))),
      thread_([this] { Loop(); }) {}

Registration::~Registration() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
}

void Registration::Sleep(absl::Duration time) {
  MutexLock lock(mutex_);
  changed_.WaitUntil(mutex_, Now() + time, [&] { return stopping_; });
}

void Registration::Loop() {
  bool registered = false;
  absl::Time renewed;
  while (true) {
    {
      MutexLock lock(mutex_);
      if (stopping_) return;
    }
    if (!registered) {
      registered = Register();
      renewed = Now();
      Sleep(registered ? lease_ / 3 : kRetryEvery);
      continue;
    }
    const absl::Time asked = Now();
    const Outcome outcome = Renew();
    if (outcome == Outcome::kRenewed) renewed = asked;
    if (outcome == Outcome::kUnknown || Now() - renewed > lease_) {
      spdlog::warn("the lease of {} is lost; all its work is stopped", node_.name());
      on_lost_();
      registered = false;
      continue;
    }
    Sleep(outcome == Outcome::kRenewed ? lease_ / 3 : std::min(kRetryEvery, lease_ / 6));
  }
}

bool Registration::Register() {
  v1::RegisterRequest request;
  *request.mutable_node() = node_;
  request.set_incarnation(incarnation_);
  v1::RegisterResponse response;
  grpc::ClientContext context;
  SetDeadline(context, absl::Seconds(3));
  const grpc::Status status = stub_->Register(&context, request, &response);
  if (status.ok()) {
    lease_ = absl::Seconds(std::max(0.5, response.lease_seconds()));
    last_complaint_.clear();
    spdlog::info("registered as {} at {}", node_.name(), coordinator_address_);
    return true;
  }
  if (status.error_message() != last_complaint_) {  // once, not every second
    last_complaint_ = status.error_message();
    spdlog::warn("cannot register at {}: {}; trying on", coordinator_address_, last_complaint_);
  }
  return false;
}

Registration::Outcome Registration::Renew() {
  v1::RenewRequest request;
  request.set_node(node_.name());
  request.set_incarnation(incarnation_);
  v1::RenewResponse response;
  grpc::ClientContext context;
  SetDeadline(context, lease_ / 3);
  const grpc::Status status = stub_->Renew(&context, request, &response);
  if (status.ok()) return Outcome::kRenewed;
  return status.error_code() == grpc::StatusCode::NOT_FOUND ? Outcome::kUnknown : Outcome::kUnreachable;
}

}  // namespace medley
