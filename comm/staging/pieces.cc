#include "comm/staging/pieces.h"

#include <deque>
#include <memory>

#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

// Enough to keep a fast link busy; more would only be more to cancel.
constexpr size_t kUnderWay = 8;

template <typename Start>
absl::Status RunPieces(const PieceRoute& route, const Pieces& pieces, Start start) {
  std::deque<std::unique_ptr<Transfer>> transfers;
  int64_t done = 0;
  const auto wait_oldest = [&]() -> absl::Status {
    RETURN_IF_ERROR(route.Annotated(transfers.front()->Wait(route.deadline), done, pieces));
    transfers.pop_front();
    ++done;
    return absl::OkStatus();
  };
  for (int64_t k = 0; k < pieces.count(); ++k) {
    if (transfers.size() == kUnderWay) RETURN_IF_ERROR(wait_oldest());
    auto started = start(k);
    if (!started.ok()) return route.Annotated(started.status(), k, pieces);
    transfers.push_back(*std::move(started));
  }
  while (!transfers.empty()) RETURN_IF_ERROR(wait_oldest());
  return absl::OkStatus();
}

}  // namespace

absl::Status PieceRoute::Annotated(const absl::Status& status, int64_t piece, const Pieces& pieces) const {
  if (status.ok() || pieces.count() == 1) return status;
  return Annotate(status, absl::StrCat("chunk ", piece + 1, " of ", pieces.count()));
}

absl::Status SendPieces(const PieceRoute& route, absl::Span<const std::byte> from, int64_t piece_bytes) {
  const Pieces pieces{static_cast<int64_t>(from.size()), piece_bytes};
  return RunPieces(route, pieces, [&](int64_t k) {
    return route.transport.Send(route.peer, route.tag, from.subspan(pieces.offset(k), pieces.size(k)),
                                route.memory);
  });
}

absl::Status ReceivePieces(const PieceRoute& route, absl::Span<std::byte> into, int64_t piece_bytes) {
  const Pieces pieces{static_cast<int64_t>(into.size()), piece_bytes};
  return RunPieces(route, pieces, [&](int64_t k) {
    return route.transport.Receive(route.peer, route.tag, into.subspan(pieces.offset(k), pieces.size(k)),
                                   route.memory);
  });
}

}  // namespace medley
