#include "comm/staging/staged_transfer.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "runtime/base/status_macros.h"

namespace medley {
namespace {

// The ring of one message: of each slot the copy and the transfer that used it last.
class Ring {
 public:
  Ring(const StagedEnd& end, const PieceRoute& route, const Pieces& pieces)
      : end_(end), route_(route), pieces_(pieces), transfers_(end.depth), copies_(end.depth) {}
  // On an error there may be transfers and copies under way: the ring is free when both have ended. Transfers
  // first, so that a peer's bytes do not arrive where the lane reads.
  ~Ring() {
    transfers_.clear();
    if (!finished_) end_.lane.Wait(end_.lane.Record()).IgnoreError();
  }

  absl::Status Send(int64_t k) {
    auto sent = route_.transport.Send(route_.peer, route_.tag, Slot(k), route_.memory);
    if (!sent.ok()) return route_.Annotated(sent.status(), k, pieces_);
    transfers_[k % end_.depth] = *std::move(sent);
    return absl::OkStatus();
  }

  absl::Status Receive(int64_t k) {
    auto received = route_.transport.Receive(route_.peer, route_.tag, Slot(k), route_.memory);
    if (!received.ok()) return route_.Annotated(received.status(), k, pieces_);
    transfers_[k % end_.depth] = *std::move(received);
    return absl::OkStatus();
  }

  absl::Status Download(int64_t k) {
    return Copied(k, end_.lane.Download(*end_.span.buffer, {Offset(k)}, Slot(k)));
  }
  absl::Status Upload(int64_t k) {
    return Copied(k, end_.lane.Upload(Slot(k), *end_.span.buffer, {Offset(k)}));
  }

  absl::Status AwaitTransfer(int64_t k) {
    std::unique_ptr<Transfer>& transfer = transfers_[k % end_.depth];
    RETURN_IF_ERROR(route_.Annotated(transfer->Wait(route_.deadline), k, pieces_));
    transfer = nullptr;
    return absl::OkStatus();
  }

  absl::Status AwaitCopy(int64_t k) {
    return route_.Annotated(end_.lane.Wait(copies_[k % end_.depth]), k, pieces_);
  }

  // Nothing is under way any more.
  void Finish() { finished_ = true; }

 private:
  absl::Span<std::byte> Slot(int64_t k) const {
    return end_.ring.subspan(k % end_.depth * pieces_.piece_bytes, pieces_.size(k));
  }
  int64_t Offset(int64_t k) const { return end_.span.offset_bytes + pieces_.offset(k); }
  absl::Status Copied(int64_t k, const absl::Status& submitted) {
    if (!submitted.ok()) return route_.Annotated(submitted, k, pieces_);
    copies_[k % end_.depth] = end_.lane.Record();
    return absl::OkStatus();
  }

  const StagedEnd& end_;
  const PieceRoute& route_;
  const Pieces& pieces_;
  std::vector<std::unique_ptr<Transfer>> transfers_;  // by slot
  std::vector<Fence> copies_;                         // by slot
  bool finished_ = false;
};

}  // namespace

absl::Status SendStaged(const StagedEnd& end, const PieceRoute& route, const Pieces& pieces) {
  Ring ring(end, route, pieces);
  const int64_t count = pieces.count();
  // Half of the slots may be on their way to the peer, the others are copied into.
  const int64_t ahead = end.depth - end.depth / 2;
  int64_t copied = 0, sent = 0;  // how many copies were submitted, and transfers were waited for
  for (int64_t k = 0; k < count; ++k) {
    for (; copied < std::min(count, k + ahead); ++copied) {
      if (copied >= end.depth) RETURN_IF_ERROR(ring.AwaitTransfer(sent++));
      RETURN_IF_ERROR(ring.Download(copied));
    }
    RETURN_IF_ERROR(ring.AwaitCopy(k));
    if (k == 0 && end.when_ready) end.when_ready();
    RETURN_IF_ERROR(ring.Send(k));
  }
  while (sent < count) RETURN_IF_ERROR(ring.AwaitTransfer(sent++));
  ring.Finish();
  return absl::OkStatus();
}

absl::StatusOr<Fence> ReceiveStaged(const StagedEnd& end, const PieceRoute& route, const Pieces& pieces) {
  Ring ring(end, route, pieces);
  const int64_t count = pieces.count();
  // One slot is copied from, into the others chunks may come.
  const int64_t ahead = std::max(1, end.depth - 1);
  int64_t awaited = 0;
  for (int64_t k = 0; k < count; ++k) {
    for (; awaited < std::min(count, k + ahead); ++awaited) {
      if (awaited >= end.depth) RETURN_IF_ERROR(ring.AwaitCopy(awaited - end.depth));
      RETURN_IF_ERROR(ring.Receive(awaited));
    }
    RETURN_IF_ERROR(ring.AwaitTransfer(k));
    RETURN_IF_ERROR(ring.Upload(k));
  }
  ring.Finish();
  return end.lane.Record();  // the lane is in order
}

}  // namespace medley
