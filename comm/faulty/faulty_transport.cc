#include "comm/faulty/faulty_transport.h"

#include "absl/strings/str_cat.h"
#include "comm/transport/message_tag.h"
#include "comm/transport/peer_set.h"
#include "runtime/base/status_macros.h"

namespace medley {

FaultyTransport::FaultyTransport(std::unique_ptr<Transport> inner, const FaultOptions& options,
                                 OnVanish on_vanish)
    : inner_(std::move(inner)), schedule_(*inner_, options, std::move(on_vanish)) {}

FaultyTransport::~FaultyTransport() = default;

absl::StatusOr<std::unique_ptr<Transfer>> FaultyTransport::Send(int peer, MessageTag tag,
                                                                absl::Span<const std::byte> bytes,
                                                                MemoryType memory) {
  return Start({FaultPlan::Direction::kSend, peer, tag, bytes.size(),
                [this, peer, tag, bytes, memory] { return inner_->Send(peer, tag, bytes, memory); }},
               memory);
}

absl::StatusOr<std::unique_ptr<Transfer>> FaultyTransport::Receive(int peer, MessageTag tag,
                                                                   absl::Span<std::byte> bytes,
                                                                   MemoryType memory) {
  return Start({FaultPlan::Direction::kReceive, peer, tag, bytes.size(),
                [this, peer, tag, bytes, memory] { return inner_->Receive(peer, tag, bytes, memory); }},
               memory);
}

void FaultyTransport::Abort(const std::string& reason) { schedule_.Abort(reason); }

void FaultyTransport::MarkGone(int peer, const std::string& why) {
  if (peer >= 0 && peer < size() && peer != rank()) schedule_.MarkGone(peer, why);
}

std::vector<PeerTraffic> FaultyTransport::Traffic() const {
  std::vector<PeerTraffic> all = inner_->Traffic();
  for (PeerTraffic& traffic : all) traffic.wait_seconds += schedule_.WaitSeconds(traffic.peer, traffic.kind);
  return all;
}

// What the inner transport refuses, refused before the delay.
absl::Status FaultyTransport::Check(int peer, MessageTag tag, MemoryType memory) const {
  if (!Reaches(memory)) return inner_->Send(peer, tag, {}, memory).status();
  RETURN_IF_ERROR(CheckPeer("peer", peer, rank(), size(), IsPeer(peer)));
  return PackTag({.source = rank(), .message = tag}).status();
}

absl::StatusOr<std::unique_ptr<Transfer>> FaultyTransport::Start(DelayedTransfer::Operation operation,
                                                                 MemoryType memory) {
  RETURN_IF_ERROR(Check(operation.peer, operation.tag, memory));
  auto transfer = std::make_unique<DelayedTransfer>(schedule_, std::move(operation));
  schedule_.Add(*transfer);
  return transfer;
}

}  // namespace medley
