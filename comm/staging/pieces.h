#pragma once
#include <algorithm>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "comm/transport/transport.h"

// A message of several pieces, sent from and received into memory that the transport reaches.
namespace medley {

// How a message of `bytes` is cut: piece k is the k-th `piece_bytes` of it, the last one what is left. One
// empty piece if there is nothing.
struct Pieces {
  int64_t bytes = 0;
  int64_t piece_bytes = 0;  // more than 0, unless `bytes` is 0

  int64_t count() const { return bytes == 0 ? 1 : (bytes + piece_bytes - 1) / piece_bytes; }
  int64_t offset(int64_t k) const { return k * piece_bytes; }
  int64_t size(int64_t k) const { return std::min(piece_bytes, bytes - offset(k)); }
};

struct PieceRoute {
  Transport& transport;
  int peer = 0;
  MessageTag tag;
  MemoryType memory = MemoryType::kHost;
  absl::Time deadline;

  // `status` with which piece it was: "chunk 3 of 16".
  absl::Status Annotated(const absl::Status& status, int64_t piece, const Pieces& pieces) const;
};

// Blocks until `from` may be used again, or all of it is in `into`. A few pieces are under way at once.
// Errors: those of the transport, with the piece.
absl::Status SendPieces(const PieceRoute& route, absl::Span<const std::byte> from, int64_t piece_bytes);
absl::Status ReceivePieces(const PieceRoute& route, absl::Span<std::byte> into, int64_t piece_bytes);

}  // namespace medley
