#pragma once
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "comm/transport/transport.h"
#include "runtime/base/status_macros.h"

namespace medley {

// Messages of one tag that are under way together. What they read and write outlives it. Errors: of the transport, with
// `what` and the rank: "exchanging staging terms with rank 2: ...".
class MessageRound {
 public:
  MessageRound(Transport& transport, MessageTag tag, std::string what)
      : transport_(transport), tag_(tag), what_(std::move(what)) {}

  absl::Status Receive(int rank, absl::Span<std::byte> bytes) {
    return Keep(rank, transport_.Receive(rank, tag_, bytes));
  }
  absl::Status Send(int rank, absl::Span<const std::byte> bytes) {
    return Keep(rank, transport_.Send(rank, tag_, bytes));
  }
  // Blocks until all are done; another round may begin then.
  absl::Status Await(absl::Time deadline) {
    for (const auto& [rank, transfer] : transfers_) {
      RETURN_IF_ERROR(Annotate(transfer->Wait(deadline), absl::StrCat(what_, " with rank ", rank)));
    }
    transfers_.clear();
    return absl::OkStatus();
  }

 private:
  absl::Status Keep(int rank, absl::StatusOr<std::unique_ptr<Transfer>> transfer) {
    if (!transfer.ok()) return transfer.status();
    transfers_.emplace_back(rank, *std::move(transfer));
    return absl::OkStatus();
  }

  Transport& transport_;
  const MessageTag tag_;
  const std::string what_;
  std::vector<std::pair<int, std::unique_ptr<Transfer>>> transfers_;
};

}  // namespace medley
