#pragma once
#include <memory>
#include <vector>

#include "comm/ucx/progress_engine.h"
#include "comm/ucx/traffic_counters.h"
#include "comm/ucx/ucx_endpoints.h"
#include "comm/ucx/ucx_memory.h"
#include "comm/ucx/ucx_operation.h"
#include "comm/ucx/ucx_transport.h"
#include "comm/ucx/ucx_worker.h"

namespace medley {

// How long what has arrived from a peer that is gone is taken in, and what cut connections give back.
inline constexpr absl::Duration kTakeIn = absl::Milliseconds(20);

// What a UcxTransport and its transfers share: the operations, and who answers for them when. Takes the
// engine's mutex itself, save where stated.
class UcxState {
 public:
  using Options = UcxTransport::Options;

  UcxState(const Options& options, std::unique_ptr<UcxWorker> worker);
  ~UcxState();
  UcxState(const UcxState&) = delete;
  UcxState& operator=(const UcxState&) = delete;

  // Creates the endpoint of `address.rank`.
  absl::Status Open(const UcxAddress& address, const std::string& own_host);
  // Waits until every endpoint is connected.
  absl::Status AwaitConnections(absl::Time deadline);

  // `operation` is complete but for what this keeps in it.
  absl::StatusOr<std::unique_ptr<Transfer>> Start(std::unique_ptr<UcxOperation> operation);
  absl::Status Await(UcxOperation& operation, absl::Time deadline);
  bool Done(UcxOperation& operation);
  // Takes the bytes back from UCX, as Transfer's comment says.
  void Drop(std::unique_ptr<UcxOperation> operation);

  void Abort(const std::string& reason);
  void MarkGone(int rank, const std::string& why);
  // Without the engine's mutex.
  void Expect(int rank, const std::string& why) { endpoints_->Expect(rank, why); }
  absl::Status Close(absl::Time deadline);

  bool Reaches(MemoryType memory) const;
  bool SharesMemory(int rank) const;
  absl::StatusOr<std::unique_ptr<Registration>> Register(absl::Span<std::byte> bytes, MemoryType memory);
  void Unregister(std::shared_ptr<UcxRegion> region);

  std::vector<PeerTraffic> Traffic() const;
  uint64_t DroppedMessages() const;

  // The token that messages to `rank` carry.
  uint32_t token(int rank) const { return tokens_[rank]; }

 private:
  Mutex& mutex() const ABSL_LOCK_RETURNED(engine_->mutex()) { return engine_->mutex(); }
  static void OnSent(void* request, ucs_status_t status, void* operation);
  static void OnReceived(void* request, ucs_status_t status, const ucp_tag_recv_info_t* info,
                         void* operation);

  void Post(UcxOperation& operation) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex());
  // UCX has given the bytes of `operation` back. `received`: the size of the message, for receives.
  void Complete(UcxOperation& operation, ucs_status_t status, size_t received)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex());
  void SettleAllOf(int rank) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex());
  void FailAll(const absl::Status& why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex());
  // Nothing moves any more, and UCX touches no message's bytes.
  void Stop(const absl::Status& why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex());
  // Waits a short time for UCX to give the bytes back. Returns whether nobody will touch them any more.
  bool AwaitReturn(UcxOperation& operation) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex());
  // The ranks, not known to be gone, that sends are under way to.
  std::vector<int> SendingTo() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex());
  absl::Status AwaitFlushes(const char* doing, absl::Time deadline) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex());

  const Options options_;
  std::vector<uint32_t> tokens_;     // by rank
  ConditionVariable changed_;        // an operation or a peer
  std::vector<UcxOperation*> held_;  // by UCX
  // UCX still holds them, though nobody will touch their bytes.
  std::vector<std::unique_ptr<UcxOperation>> orphans_;
  UcxRegions regions_;
  TrafficCounters traffic_;
  uint64_t dropped_messages_ = 0;
  absl::Status over_;  // not OK: Cancelled, aborted or closed
  bool connected_ = false;
  bool aborted_ = false;
  std::unique_ptr<UcxEndpoints> endpoints_;
  std::unique_ptr<UcxWorker> worker_;       // after what its callbacks write to
  std::unique_ptr<ProgressEngine> engine_;  // last: its thread ends first
};

}  // namespace medley
