#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/faulty/delayed_transfer.h"
#include "comm/faulty/fault_plan.h"
#include "comm/transport/transport.h"

namespace medley {

// A transport on which things go wrong, as a FaultPlan has it: late and overtaking messages, slow links,
// links that stall for good, and a rank that vanishes. Holds Transport's contract over any transport that
// does, conformance suite included; what it delivers, it delivers unharmed and in the order of each (peer,
// tag).
//
// A stalled operation goes on when its peer is marked as gone or the transport is aborted, and fails then.
//
// Vanishing is what others see of a crash: what has started may arrive, nothing comes after it, and nobody is
// told. All of this rank's own operations then fail with Cancelled, so that its thread ends.
//
// Thread-safe; one thread of its own, asleep until the next operation is due.
class FaultyTransport final : public Transport {
 public:
  // Called once, from a thread of this transport, after it has vanished and before its destructor returns.
  // Where a test marks the rank as gone at its peers; none: silence.
  using OnVanish = std::function<void()>;
  FaultyTransport(std::unique_ptr<Transport> inner, const FaultOptions& options,
                  OnVanish on_vanish = nullptr);
  // Every Transfer must be destroyed before.
  ~FaultyTransport() override;

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  bool IsPeer(int rank) const override { return inner_->IsPeer(rank); }
  absl::StatusOr<std::unique_ptr<Transfer>> Send(int peer, MessageTag tag, absl::Span<const std::byte> bytes,
                                                 MemoryType memory = MemoryType::kHost) override;
  absl::StatusOr<std::unique_ptr<Transfer>> Receive(int peer, MessageTag tag, absl::Span<std::byte> bytes,
                                                    MemoryType memory = MemoryType::kHost) override;
  void Abort(const std::string& reason) override;
  void MarkGone(int peer, const std::string& why) override;
  bool Reaches(MemoryType memory) const override { return inner_->Reaches(memory); }
  bool SharesMemory(int peer) const override { return inner_->SharesMemory(peer); }
  absl::StatusOr<std::unique_ptr<Registration>> Register(absl::Span<std::byte> bytes,
                                                         MemoryType memory = MemoryType::kHost) override {
    return inner_->Register(bytes, memory);
  }
  std::vector<PeerTraffic> Traffic() const override;
  uint64_t DroppedMessages() const override { return inner_->DroppedMessages(); }

 private:
  absl::Status Check(int peer, MessageTag tag, MemoryType memory) const;
  absl::StatusOr<std::unique_ptr<Transfer>> Start(DelayedTransfer::Operation operation, MemoryType memory);

  const std::unique_ptr<Transport> inner_;
  FaultSchedule schedule_;
};

}  // namespace medley
