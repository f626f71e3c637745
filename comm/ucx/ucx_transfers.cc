// The half of UcxState that deals with single transfers.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "comm/ucx/ucx_state.h"
#include "runtime/base/clock.h"

namespace medley {
namespace {

// How often it is looked whether a peer's process has ended.
constexpr absl::Duration kLookForEnd = absl::Milliseconds(1);

class UcxTransfer final : public Transfer {
 public:
  UcxTransfer(UcxState& state, std::unique_ptr<UcxOperation> operation)
      : state_(state), operation_(std::move(operation)) {}
  ~UcxTransfer() override { state_.Drop(std::move(operation_)); }
  absl::Status Wait(absl::Time deadline) override { return state_.Await(*operation_, deadline); }
  bool Done() override { return state_.Done(*operation_); }

 private:
  UcxState& state_;
  std::unique_ptr<UcxOperation> operation_;
};

}  // namespace

void UcxState::OnSent(void* request, ucs_status_t status, void* operation) ABSL_NO_THREAD_SAFETY_ANALYSIS {
  UcxOperation& sent = *static_cast<UcxOperation*>(operation);
  static_cast<UcxState*>(sent.owner)->Complete(sent, status, /*received=*/0);
  ucp_request_free(request);
}

void UcxState::OnReceived(void* request, ucs_status_t status, const ucp_tag_recv_info_t* info,
                          void* operation) ABSL_NO_THREAD_SAFETY_ANALYSIS {
  UcxOperation& received = *static_cast<UcxOperation*>(operation);
  static_cast<UcxState*>(received.owner)->Complete(received, status, info->length);
  ucp_request_free(request);
}

void UcxState::Complete(UcxOperation& operation, ucs_status_t status, size_t received) {
  if (status == UCS_OK && !operation.settled.load(std::memory_order_relaxed)) {
    if (operation.sends()) {
      traffic_.Sent(operation.peer, operation.tag.kind, operation.bytes);
    } else {
      traffic_.Received(operation.peer, operation.tag.kind, received);
    }
  }
  const absl::Status& gone = endpoints_->gone(operation.peer);
  operation.Settle(status == UCS_ERR_CANCELED && !gone.ok() ? gone : operation.Answer(status, received));
  operation.request = nullptr;
  operation.region.reset();
  held_[operation.place] = held_.back();
  held_[operation.place]->place = operation.place;
  held_.pop_back();
  operation.changed.NotifyAll();
  changed_.NotifyAll();
  operation.held.store(false, std::memory_order_release);  // its transfer may destroy it now
}

void UcxState::Post(UcxOperation& operation) {
  operation.owner = this;
  operation.held.store(true, std::memory_order_relaxed);
  operation.place = held_.size();
  held_.push_back(&operation);
  ucp_request_param_t params;
  params.op_attr_mask =
      UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_MEMORY_TYPE;
  params.user_data = &operation;
  params.memory_type = UcsMemoryType(operation.memory);
  if (!regions_.empty()) {
    operation.region = regions_.Find(operation.data, operation.bytes);
    if (operation.region != nullptr) {
      params.memh = operation.region->handle();
      params.op_attr_mask |= UCP_OP_ATTR_FIELD_MEMH;
    }
  }
  ucs_status_ptr_t posted;
  if (operation.sends()) {
    params.cb.send = &UcxState::OnSent;
    posted = ucp_tag_send_nbx(endpoints_->get(operation.peer), operation.data, operation.bytes,
                              operation.wire_tag, &params);
  } else {
    // Always by callback: on the short way UCX does not always say how long the message was.
    params.op_attr_mask |= UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
    params.cb.recv = &UcxState::OnReceived;
    posted = ucp_tag_recv_nbx(worker_->get(), operation.data, operation.bytes, operation.wire_tag,
                              /*tag_mask=*/~uint64_t{0}, &params);
  }
  if (!operation.held.load(std::memory_order_relaxed)) return;  // the callback ran, and `posted` is freed
  if (UCS_PTR_IS_PTR(posted)) {
    operation.request = posted;
  } else {
    Complete(operation, UCS_PTR_STATUS(posted), /*received=*/0);
  }
}

absl::StatusOr<std::unique_ptr<Transfer>> UcxState::Start(std::unique_ptr<UcxOperation> operation) {
  UcxOperation& started = *operation;
  auto transfer = std::make_unique<UcxTransfer>(*this, std::move(operation));
  EngineLock lock(*engine_);
  const absl::Status& gone = endpoints_->gone(started.peer);
  if (!over_.ok()) {
    started.Settle(over_);
  } else if (!connected_) {
    return absl::FailedPreconditionError("the transport is not connected");
  } else if (started.sends() && !gone.ok()) {
    started.Settle(gone);
  } else {
    if (!gone.ok()) engine_->TakeIn(kTakeIn);
    Post(started);
    if (started.held.load(std::memory_order_relaxed)) {
      engine_->Nudge([&] { return !started.held.load(std::memory_order_relaxed); });
      // What is not here yet will not come any more.
      if (!gone.ok()) engine_->TakeIn(kTakeIn);
      if (!gone.ok()) started.Settle(gone);
    }
  }
  return std::unique_ptr<Transfer>(std::move(transfer));
}

absl::Status UcxState::Await(UcxOperation& operation, absl::Time deadline) {
  if (operation.settled.load(std::memory_order_acquire)) return operation.status;
  EngineLock lock(*engine_);
  absl::Duration waited;
  const bool settled = engine_->Await(
      operation.changed, deadline, [&] { return operation.settled.load(std::memory_order_relaxed); },
      &waited);
  if (waited != absl::ZeroDuration()) traffic_.Waited(operation.peer, operation.tag.kind, waited);
  if (settled) return operation.status;
  return absl::DeadlineExceededError(absl::StrCat(operation.Description(), " not done at the deadline"));
}

bool UcxState::Done(UcxOperation& operation) {
  if (operation.settled.load(std::memory_order_acquire)) return true;
  EngineLock lock(*engine_);
  engine_->Look();
  return operation.settled.load(std::memory_order_relaxed);
}

bool UcxState::AwaitReturn(UcxOperation& operation) {
  // An aborted transport owes nothing to its peers, so nothing is lost by not waiting.
  const absl::Time end = Now() + (over_.ok() ? options_.cancel_grace : absl::ZeroDuration());
  const auto returned = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return !operation.held.load(std::memory_order_relaxed) || engine_->halted();
  };
  const bool maybe_dead = !endpoints_->gone(operation.peer).ok() || !over_.ok();
  while (!returned()) {
    if (maybe_dead && endpoints_->HasEnded(operation.peer)) return true;
    const absl::Time now = Now();
    if (now >= end) return false;
    engine_->Await(operation.changed, maybe_dead ? std::min(end, now + kLookForEnd) : end, returned);
  }
  return true;
}

void UcxState::Drop(std::unique_ptr<UcxOperation> operation) {
  if (!operation->held.load(std::memory_order_acquire)) return;
  EngineLock lock(*engine_);
  const bool withdraws = operation->request != nullptr && !engine_->halted() && !operation->sends();
  if (withdraws) ucp_request_cancel(worker_->get(), operation->request);
  if (!AwaitReturn(*operation)) {
    Stop(absl::CancelledError(absl::StrCat(operation->Description(), " was given up while rank ",
                                           operation->peer, " was at work on it; the transport stopped")));
  }
  if (operation->held.load(std::memory_order_relaxed)) orphans_.push_back(std::move(operation));
}

}  // namespace medley
