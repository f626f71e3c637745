#include "comm/ucx/ucx_state.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "comm/transport/message_tag.h"
#include "comm/ucx/ucx_status.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

using Direction = UcxOperation::Direction;

class UcxTransfer final : public Transfer {
 public:
  UcxTransfer(UcxState& state, std::unique_ptr<UcxOperation> operation)
      : state_(state), operation_(std::move(operation)) {}
  ~UcxTransfer() override { state_.Drop(std::move(operation_)); }
  absl::Status Wait(absl::Time deadline) override { return state_.Await(*operation_, deadline); }

 private:
  UcxState& state_;
  std::unique_ptr<UcxOperation> operation_;
};

void OnSent(void* request, ucs_status_t status, void* operation) {
  static_cast<UcxOperation*>(operation)->Complete(status, /*received=*/0);
  ucp_request_free(request);
}

void OnReceived(void* request, ucs_status_t status, const ucp_tag_recv_info_t* info, void* operation) {
  static_cast<UcxOperation*>(operation)->Complete(status, info->length);
  ucp_request_free(request);
}

}  // namespace

UcxState::UcxState(const Options& options, std::unique_ptr<UcxWorker> worker)
    : options_(options),
      peers_(options.size),
      worker_(std::move(worker)),
      engine(std::make_unique<ProgressEngine>(*worker_)) {
  for (int rank = 0; rank < options.size; ++rank) {
    peers_[rank].state = this;
    peers_[rank].rank = rank;
  }
}

UcxState::~UcxState() {
  engine.reset();
  for (Peer& peer : peers_) {
    if (peer.endpoint == nullptr || peer.error_mode != UCP_ERR_HANDLING_MODE_PEER) continue;
    ucp_request_param_t force = {};
    force.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    force.flags = UCP_EP_CLOSE_FLAG_FORCE;  // gives back all that is under way, by callbacks, now
    const ucs_status_ptr_t request = ucp_ep_close_nbx(peer.endpoint, &force);
    if (UCS_PTR_IS_PTR(request)) ucp_request_free(request);
  }
  std::erase_if(orphans_, [](const auto& operation) { return operation->request == nullptr; });
  const bool flushing = std::any_of(peers_.begin(), peers_.end(), [](const Peer& peer) {
    return peer.pending != nullptr && peer.error_mode == UCP_ERR_HANDLING_MODE_NONE;
  });
  if (orphans_.empty() && !flushing) return;
  // UCX 1.13 has no way to take a large send over shared memory back, and stops the process where a worker is
  // destroyed that has one. So this worker stays, and what its callbacks know; it happens once in an epoch at
  // most.
  struct Remains {
    std::unique_ptr<UcxWorker> worker;
    std::vector<std::unique_ptr<UcxOperation>> operations;
  };
  static auto* const all_remains = new std::vector<Remains>;
  static auto* const remains_mutex = new Mutex;
  MutexLock lock(*remains_mutex);
  all_remains->push_back({std::move(worker_), std::move(orphans_)});
}

void UcxState::OnPeerError(void* argument, ucp_ep_h, ucs_status_t status) ABSL_NO_THREAD_SAFETY_ANALYSIS {
  Peer& peer = *static_cast<Peer*>(argument);
  if (!peer.gone.ok()) return;
  peer.gone =
      absl::UnavailableError(absl::StrCat("rank ", peer.rank, " is gone: ", ucs_status_string(status)));
  for (UcxOperation* operation : peer.state->alive_) {
    if (operation->peer == peer.rank) operation->Settle(peer.gone);
  }
  peer.state->changed_.NotifyAll();
}

void UcxState::OnFlushed(void* request, ucs_status_t status, void* argument) {
  Peer& peer = *static_cast<Peer*>(argument);
  peer.pending = nullptr;
  peer.flushed = FromUcs(status, absl::StrCat("rank ", peer.rank));
  peer.state->changed_.NotifyAll();
  ucp_request_free(request);
}

void UcxState::Flush(Peer& peer) {
  if (peer.pending != nullptr) return;
  ucp_request_param_t params = {};
  params.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  params.cb.send = &UcxState::OnFlushed;
  params.user_data = &peer;
  const ucs_status_ptr_t request = ucp_ep_flush_nbx(peer.endpoint, &params);
  peer.pending = UCS_PTR_IS_PTR(request) ? request : nullptr;
  if (!UCS_PTR_IS_PTR(request))
    peer.flushed = FromUcs(UCS_PTR_STATUS(request), absl::StrCat("rank ", peer.rank));
}

absl::Status UcxState::AwaitFlushes(const char* doing, absl::Time deadline) {
  const auto none = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    for (const Peer& peer : peers_) {
      if (peer.pending != nullptr && peer.gone.ok()) return aborted_ || engine->halted();
    }
    return true;
  };
  engine->Await(changed_, deadline, none);
  if (aborted_) return absl::CancelledError(absl::StrCat(doing, ": the transport was aborted"));
  std::vector<int> silent;
  for (const Peer& peer : peers_) {
    if (peer.pending != nullptr && peer.gone.ok()) silent.push_back(peer.rank);
  }
  if (silent.empty()) return absl::OkStatus();
  return absl::DeadlineExceededError(
      absl::StrCat(doing, ": no answer from rank ", absl::StrJoin(silent, ", "), " at the deadline"));
}

absl::Status UcxState::Open(const UcxAddress& address, const std::string& own_host) {
  const bool same_host = address.host == own_host;
  if (options_.links == UcxTransport::Links::kSharedMemory && !same_host) {
    return absl::FailedPreconditionError(
        absl::StrCat("links are shared memory, and rank ", address.rank, " is on another host"));
  }
  const bool local = same_host && options_.links != UcxTransport::Links::kTcp;
  const std::string& packed = local ? address.any : address.network;
  if (packed.empty()) {
    return absl::FailedPreconditionError(absl::StrCat("rank ", address.rank, " has no network address"));
  }
  MutexLock lock(mutex());
  if (!over_.ok()) return over_;
  Peer& peer = peers_[address.rank];
  if (peer.endpoint != nullptr) {
    return absl::FailedPreconditionError(absl::StrCat("connected to rank ", address.rank, " already"));
  }
  // With PEER, UCX 1.13 leaves shared memory out.
  peer.error_mode = local ? UCP_ERR_HANDLING_MODE_NONE : UCP_ERR_HANDLING_MODE_PEER;
  ucp_ep_params_t params = {};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(packed.data());
  params.err_mode = peer.error_mode;
  params.err_handler.cb = &UcxState::OnPeerError;
  params.err_handler.arg = &peer;
  RETURN_IF_ERROR(FromUcs(ucp_ep_create(worker_->get(), &params, &peer.endpoint),
                          absl::StrCat("connecting to rank ", address.rank)));
  Flush(peer);  // completes only once connected
  engine->Nudge([&] { return peer.pending == nullptr; });
  return absl::OkStatus();
}

absl::Status UcxState::AwaitConnections(absl::Time deadline) {
  MutexLock lock(mutex());
  const absl::Status answered = AwaitFlushes("connecting", deadline);
  for (const Peer& peer : peers_) {
    RETURN_IF_ERROR(peer.gone);
    RETURN_IF_ERROR(Annotate(peer.flushed, "connecting"));
  }
  RETURN_IF_ERROR(answered);
  RETURN_IF_ERROR(over_);
  connected_ = true;
  return absl::OkStatus();
}

void UcxState::Post(UcxOperation& operation, std::byte* bytes) {
  const bool sending = operation.direction == Direction::kSend;
  const absl::StatusOr<uint64_t> tag = PackTag(
      {options_.epoch, sending ? options_.rank : operation.peer, operation.tag});  // checked by the caller
  ucp_request_param_t params = {};
  params.op_attr_mask =
      UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_MEMORY_TYPE;
  params.user_data = &operation;
  params.memory_type = UCS_MEMORY_TYPE_HOST;
  ucs_status_ptr_t posted;
  if (sending) {
    params.cb.send = &OnSent;
    posted = ucp_tag_send_nbx(peers_[operation.peer].endpoint, bytes, operation.bytes, *tag, &params);
  } else {
    // Always by callback: on the short way UCX does not always say how long the message was.
    params.op_attr_mask |= UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
    params.cb.recv = &OnReceived;
    posted =
        ucp_tag_recv_nbx(worker_->get(), bytes, operation.bytes, *tag, /*tag_mask=*/~uint64_t{0}, &params);
  }
  if (operation.settled) return;  // the callback ran, and `posted` is freed
  if (UCS_PTR_IS_PTR(posted)) {
    operation.request = posted;
  } else {
    operation.Complete(UCS_PTR_STATUS(posted), /*received=*/0);
  }
}

absl::StatusOr<std::unique_ptr<Transfer>> UcxState::Start(std::unique_ptr<UcxOperation> operation,
                                                                     std::byte* bytes) {
  UcxOperation& started = *operation;
  MutexLock lock(mutex());
  if (!connected_ && over_.ok()) return absl::FailedPreconditionError("the transport is not connected");
  const absl::Status& gone = peers_[started.peer].gone;
  const bool sending = started.direction == Direction::kSend;
  if (!over_.ok()) {
    started.Settle(over_);
  } else if (sending && !gone.ok()) {
    started.Settle(gone);
  } else {
    started.any_changed = &changed_;
    alive_.insert(&started);
    Post(started, bytes);
    engine->Nudge([&] { return started.request == nullptr; });
    // What is not here yet will not come any more.
    if (!started.settled && !gone.ok()) started.Settle(gone);
  }
  return std::unique_ptr<Transfer>(std::make_unique<UcxTransfer>(*this, std::move(operation)));
}

absl::Status UcxState::Await(UcxOperation& operation, absl::Time deadline) {
  MutexLock lock(mutex());
  if (engine->Await(operation.changed, deadline, [&] { return operation.settled; })) return operation.status;
  return absl::DeadlineExceededError(absl::StrCat(operation.Description(), " not done at the deadline"));
}

void UcxState::Withdraw(UcxOperation& operation) {
  if (operation.request == nullptr || engine->halted()) return;
  if (operation.direction == Direction::kReceive) ucp_request_cancel(worker_->get(), operation.request);
}

void UcxState::Drop(std::unique_ptr<UcxOperation> operation) {
  MutexLock lock(mutex());
  const auto released = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return operation->request == nullptr || engine->halted();
  };
  Withdraw(*operation);
  if (!released()) {
    // An aborted transport owes nothing to its peers, so nothing is lost by not waiting.
    const absl::Duration grace = over_.ok() ? options_.cancel_grace : absl::ZeroDuration();
    engine->Await(operation->changed, absl::Now() + grace, released);
  }
  if (!released()) {
    Halt(absl::CancelledError(absl::StrCat(operation->Description(), " was given up while rank ",
                                           operation->peer, " was at work on it; the transport stopped")));
  }
  alive_.erase(operation.get());
  if (operation->request != nullptr) orphans_.push_back(std::move(operation));
}

void UcxState::FailAll(const absl::Status& why) {
  if (over_.ok()) over_ = why;
  for (UcxOperation* operation : alive_) operation->Settle(over_);
  changed_.NotifyAll();
}

void UcxState::Halt(const absl::Status& why) {
  engine->Halt();
  FailAll(why);
  // Those that wait for UCX to give bytes back need not any more.
  for (UcxOperation* operation : alive_) operation->changed.NotifyAll();
}

void UcxState::Abort(const std::string& reason) {
  MutexLock lock(mutex());
  aborted_ = true;
  FailAll(absl::CancelledError(reason));
}

absl::Status UcxState::Close(absl::Time deadline) {
  MutexLock lock(mutex());
  RETURN_IF_ERROR(over_);
  over_ = absl::CancelledError("the transport is closed");
  for (UcxOperation* operation : alive_) {
    if (operation->direction == Direction::kReceive) operation->Settle(over_);
  }
  const auto sent = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return SendingTo().empty() || aborted_; };
  engine->Await(changed_, deadline, sent);
  const std::vector<int> unsent = SendingTo();
  for (Peer& peer : peers_) {
    if (peer.endpoint != nullptr && peer.gone.ok()) Flush(peer);
  }
  engine->Nudge([] { return false; });
  const absl::Status answered = AwaitFlushes("closing", deadline);
  FailAll(over_);  // the thread goes on, lest peers that still flush wait for this rank
  if (answered.ok() && !unsent.empty()) {
    return absl::DeadlineExceededError(
        absl::StrCat("closing: not all was sent to rank ", absl::StrJoin(unsent, ", "), " at the deadline"));
  }
  return answered;
}

std::vector<int> UcxState::SendingTo() {
  std::set<int> peers;
  for (const UcxOperation* operation : alive_) {
    const bool sending = operation->direction == Direction::kSend && operation->request != nullptr;
    if (sending && peers_[operation->peer].gone.ok()) peers.insert(operation->peer);
  }
  return {peers.begin(), peers.end()};
}

}  // namespace medley
