#include "comm/ucx/ucx_endpoints.h"

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "comm/ucx/ucx_links.h"
#include "comm/ucx/ucx_status.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

std::string PrintedInfo(ucp_ep_h endpoint) {
  char* text = nullptr;
  size_t length = 0;
  FILE* stream = open_memstream(&text, &length);
  if (stream == nullptr) return "";
  ucp_ep_print_info(endpoint, stream);
  std::fclose(stream);
  std::string info(text, length);
  std::free(text);
  return info;
}

}  // namespace

UcxEndpoints::UcxEndpoints(ucp_worker_h worker, int size, ConditionVariable& changed,
                           std::function<void(int rank)> lost)
    : worker_(worker), changed_(changed), lost_(std::move(lost)), peers_(size) {
  for (int rank = 0; rank < size; ++rank) {
    peers_[rank].all = this;
    peers_[rank].rank = rank;
  }
}

absl::Status UcxEndpoints::Open(const UcxAddress& address, bool local) {
  Peer& peer = peers_[address.rank];
  if (peer.endpoint != nullptr) {
    return absl::FailedPreconditionError(absl::StrCat("connected to rank ", address.rank, " already"));
  }
  // With PEER, UCX 1.13 leaves shared memory out.
  peer.error_mode = local ? UCP_ERR_HANDLING_MODE_NONE : UCP_ERR_HANDLING_MODE_PEER;
  if (local) peer.process = address.process;
  ucp_ep_params_t params = {};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>((local ? address.any : address.network).data());
  params.err_mode = peer.error_mode;
  params.err_handler.cb = &UcxEndpoints::OnPeerError;
  params.err_handler.arg = &peer;
  RETURN_IF_ERROR(FromUcs(ucp_ep_create(worker_, &params, &peer.endpoint),
                          absl::StrCat("connecting to rank ", address.rank)));
  Flush(peer.rank);  // completes only once connected
  return absl::OkStatus();
}

bool UcxEndpoints::HasEnded(int rank) const {
  return IsLocal(rank) && medley::HasEnded(peers_[rank].process);
}

void UcxEndpoints::FindPaths() {
  for (Peer& peer : peers_) {
    if (peer.endpoint != nullptr) peer.path = PathOf(PrintedInfo(peer.endpoint));
  }
}

void UcxEndpoints::OnPeerError(void* argument, ucp_ep_h, ucs_status_t status) {
  Peer& peer = *static_cast<Peer*>(argument);
  std::string why = ucs_status_string(status);
  {
    MutexLock lock(peer.all->expected_mutex_);
    const auto expected = peer.all->expected_.find(peer.rank);
    if (expected != peer.all->expected_.end()) why = expected->second;
  }
  peer.all->CountAsGone(peer, why);  // the endpoint is closed later: not in a callback
}

void UcxEndpoints::CountAsGone(Peer& peer, const std::string& why) {
  if (!peer.gone.ok()) return;
  peer.gone = absl::UnavailableError(absl::StrCat("rank ", peer.rank, " is gone: ", why));
  lost_(peer.rank);
  changed_.NotifyAll();
}

void UcxEndpoints::Expect(int rank, const std::string& why) {
  MutexLock lock(expected_mutex_);
  expected_.try_emplace(rank, why);
}

void UcxEndpoints::Lose(int rank, const std::string& why) {
  CountAsGone(peers_[rank], why);
  Cut(peers_[rank]);
}

void UcxEndpoints::Cut(Peer& peer) {
  if (peer.endpoint == nullptr || peer.error_mode != UCP_ERR_HANDLING_MODE_PEER) return;
  ucp_request_param_t force = {};
  force.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  force.flags = UCP_EP_CLOSE_FLAG_FORCE;
  const ucs_status_ptr_t request = ucp_ep_close_nbx(std::exchange(peer.endpoint, nullptr), &force);
  if (UCS_PTR_IS_PTR(request)) ucp_request_free(request);
}

void UcxEndpoints::CutAll() {
  for (Peer& peer : peers_) Cut(peer);
}

void UcxEndpoints::OnFlushed(void* request, ucs_status_t status, void* argument) {
  Peer& peer = *static_cast<Peer*>(argument);
  peer.pending = nullptr;
  peer.flushed = FromUcs(status, absl::StrCat("rank ", peer.rank));
  peer.all->changed_.NotifyAll();
  ucp_request_free(request);
}

void UcxEndpoints::Flush(int rank) {
  Peer& peer = peers_[rank];
  if (peer.pending != nullptr || peer.endpoint == nullptr || !peer.gone.ok()) return;
  ucp_request_param_t params = {};
  params.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  params.cb.send = &UcxEndpoints::OnFlushed;
  params.user_data = &peer;
  const ucs_status_ptr_t request = ucp_ep_flush_nbx(peer.endpoint, &params);
  peer.pending = UCS_PTR_IS_PTR(request) ? request : nullptr;
  if (!UCS_PTR_IS_PTR(request))
    peer.flushed = FromUcs(UCS_PTR_STATUS(request), absl::StrCat("rank ", peer.rank));
}

void UcxEndpoints::FlushAll() {
  for (const Peer& peer : peers_) Flush(peer.rank);
}

std::vector<int> UcxEndpoints::Flushing() const {
  std::vector<int> ranks;
  for (const Peer& peer : peers_) {
    if (peer.pending != nullptr && peer.gone.ok()) ranks.push_back(peer.rank);
  }
  return ranks;
}

bool UcxEndpoints::AllFlushed() const {
  for (const Peer& peer : peers_) {
    if (peer.pending != nullptr && peer.gone.ok()) return false;
  }
  return true;
}

absl::Status UcxEndpoints::FlushError() const {
  for (const Peer& peer : peers_) {
    RETURN_IF_ERROR(peer.gone);
    RETURN_IF_ERROR(peer.flushed);
  }
  return absl::OkStatus();
}

bool UcxEndpoints::Stuck() const {
  for (const Peer& peer : peers_) {
    if (peer.pending != nullptr && peer.error_mode == UCP_ERR_HANDLING_MODE_NONE) return true;
  }
  return false;
}

}  // namespace medley
