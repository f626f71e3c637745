#pragma once
#include <memory>
#include <unordered_set>
#include <vector>

#include "comm/ucx/progress_engine.h"
#include "comm/ucx/ucx_address.h"
#include "comm/ucx/ucx_operation.h"
#include "comm/ucx/ucx_transport.h"
#include "comm/ucx/ucx_worker.h"

namespace medley {

// What a UcxTransport and its transfers share. Methods take the engine's mutex as stated.
class UcxState {
 public:
  using Options = UcxTransport::Options;

  UcxState(const Options& options, std::unique_ptr<UcxWorker> worker);
  ~UcxState();

  Mutex& mutex() ABSL_LOCK_RETURNED(engine->mutex()) { return engine->mutex(); }

  // Creates the endpoint of `address.rank`.
  absl::Status Open(const UcxAddress& address, const std::string& own_host);
  // Waits until every endpoint is connected.
  absl::Status AwaitConnections(absl::Time deadline);

  absl::StatusOr<std::unique_ptr<Transfer>> Start(std::unique_ptr<UcxOperation> operation, std::byte* bytes);
  absl::Status Await(UcxOperation& operation, absl::Time deadline);
  // Takes the bytes back from UCX, as Transfer's comment says.
  void Drop(std::unique_ptr<UcxOperation> operation);

  void Abort(const std::string& reason);
  absl::Status Close(absl::Time deadline);

 private:
  struct Peer {
    UcxState* state = nullptr;
    int rank = 0;
    ucp_ep_h endpoint = nullptr;
    ucp_err_handling_mode_t error_mode = UCP_ERR_HANDLING_MODE_NONE;
    absl::Status gone;             // not OK: Unavailable, with the reason
    void* pending = nullptr;       // request of a flush under way
    absl::Status flushed;          // answer of the last one
  };
  static void OnPeerError(void* peer, ucp_ep_h endpoint, ucs_status_t status);
  static void OnFlushed(void* request, ucs_status_t status, void* peer);

  void Post(UcxOperation& operation, std::byte* bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex());
  void Withdraw(UcxOperation& operation) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex());
  void FailAll(const absl::Status& why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex());
  void Halt(const absl::Status& why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex());
  // Starts to wait until `peer` is connected and all sent to it is on its way. (Not an orderly
  // ucp_ep_close_nbx: over TCP that one waits for the peer to progress, which one that closed before does
  // not.)
  void Flush(Peer& peer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex());
  // The ranks, not known to be gone, that sends are under way to.
  std::vector<int> SendingTo() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex());
  absl::Status AwaitFlushes(const char* doing, absl::Time deadline) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex());

  const Options options_;
  std::vector<Peer> peers_;  // by rank; before the worker, whose callbacks write here to the last
  std::unordered_set<UcxOperation*> alive_;
  std::vector<std::unique_ptr<UcxOperation>> orphans_;  // UCX still holds them, halted as it is
  absl::Status over_;                                   // not OK: Cancelled, aborted or closed
  bool connected_ = false;
  bool aborted_ = false;
  ConditionVariable changed_;  // an operation or a peer
  std::unique_ptr<UcxWorker> worker_;

 public:
  std::unique_ptr<ProgressEngine> engine;  // last: its thread ends first
};

}  // namespace medley
