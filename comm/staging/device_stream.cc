#include "comm/staging/device_stream.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "comm/staging/pieces.h"
#include "comm/staging/staged_transfer.h"
#include "comm/staging/strategy.h"
#include "runtime/base/status_macros.h"
#include "runtime/device/copy_range.h"

namespace medley {

absl::StatusOr<std::unique_ptr<DeviceStream>> DeviceStream::Open(DeviceQueue& queue, Transport& transport,
                                                                 std::vector<StagingTerms> terms_by_rank) {
  if (terms_by_rank.size() != static_cast<size_t>(transport.size())) {
    return absl::InvalidArgumentError(
        absl::StrCat("staging terms of ", terms_by_rank.size(), " ranks, there are ", transport.size()));
  }
  const Handling own = terms_by_rank[transport.rank()].handling;
  std::unique_ptr<DeviceStream> stream(new DeviceStream(queue, transport, std::move(terms_by_rank)));
  if (own == Handling::kStaged || own == Handling::kWhole) {
    ASSIGN_OR_RETURN(stream->lane_, queue.OpenCopyLane());
  }
  return stream;
}

// The lane goes first, and waits for its copies.
DeviceStream::~DeviceStream() { lane_ = nullptr; }

absl::Status DeviceStream::Send(const DeviceMessage& message, absl::Time deadline) {
  return Annotate(Run(Direction::kSend, message, deadline).status(),
                  absl::StrCat(NameOf(handling()), " send to rank ", message.peer));
}

absl::Status DeviceStream::Receive(const DeviceMessage& message, absl::Time deadline) {
  RETURN_IF_ERROR(ReceiveBehind(message, deadline).status());
  return AwaitLastArrival();
}

absl::StatusOr<MessageArrival> DeviceStream::ReceiveBehind(const DeviceMessage& message,
                                                           absl::Time deadline) {
  absl::StatusOr<MessageArrival> arrival = Run(Direction::kReceive, message, deadline);
  if (arrival.ok()) return arrival;
  return Annotate(arrival.status(), absl::StrCat(NameOf(handling()), " receive from rank ", message.peer));
}

absl::Status DeviceStream::AwaitLastArrival() {
  if (!last_arrival_.has_value()) return absl::OkStatus();
  const Fence fence = *last_arrival_;
  last_arrival_.reset();
  return lane_->Wait(fence);
}

absl::StatusOr<MessageArrival> DeviceStream::Run(Direction direction, const DeviceMessage& message,
                                                 absl::Time deadline) {
  const DeviceSpan& span = message.span;
  if (message.peer < 0 || message.peer >= transport_.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("peer is ", message.peer, ", not in [0, ", transport_.size(), ")"));
  }
  if (span.size_bytes < 0)
    return absl::InvalidArgumentError(absl::StrCat("a message of ", span.size_bytes, " B"));
  const bool sends = direction == Direction::kSend;
  if (span.buffer == nullptr) return absl::InvalidArgumentError("a message without a buffer");
  RETURN_IF_ERROR(CheckCopyRange(sends ? "Send" : "Receive", span.buffer->size(), {span.offset_bytes},
                                 static_cast<size_t>(span.size_bytes)));
  const int64_t piece_bytes =
      WireChunkBytes(span.size_bytes, terms_by_rank_[transport_.rank()], terms_by_rank_[message.peer]);
  PieceRoute route{.transport = transport_, .peer = message.peer, .tag = message.tag, .deadline = deadline};
  std::byte* address = span.buffer->host_address();
  RETURN_IF_ERROR(AwaitLastArrival());
  switch (handling()) {
    case Handling::kWhole:
      return RunWhole(direction, message, deadline, piece_bytes);
    case Handling::kStaged: {
      const Pieces pieces{span.size_bytes, piece_bytes};
      const int depth = RingDepth(pieces.count());
      RETURN_IF_ERROR(memory_.Ensure(*lane_, transport_, piece_bytes * depth));
      if (message.after.has_value()) RETURN_IF_ERROR(lane_->AwaitQueue(*message.after));
      const StagedEnd end{.lane = *lane_,
                          .span = span,
                          .ring = memory_.bytes(),
                          .depth = depth,
                          .when_ready = message.when_ready};
      if (sends) {
        RETURN_IF_ERROR(SendStaged(end, route, pieces));
        return MessageArrival{};
      }
      ASSIGN_OR_RETURN(last_arrival_, ReceiveStaged(end, route, pieces));
      return MessageArrival{lane_.get(), *last_arrival_};
    }
    case Handling::kDirect: {
      const DeviceAddress device = span.buffer->device_address();
      route.memory = MemoryTypeOf(device.kind);
      address = device.address;
      if (!transport_.Reaches(route.memory) || route.memory == MemoryType::kHost) {
        return absl::InvalidArgumentError("the network does not reach this device's memory");
      }
      break;
    }
    case Handling::kHost:
      break;
  }
  if (address == nullptr) return absl::InvalidArgumentError("the host does not reach this device's memory");
  if (message.after.has_value()) RETURN_IF_ERROR(queue_.Wait(*message.after));
  if (message.when_ready) message.when_ready();
  const absl::Span<std::byte> bytes(address + span.offset_bytes, static_cast<size_t>(span.size_bytes));
  RETURN_IF_ERROR(sends ? SendPieces(route, bytes, piece_bytes) : ReceivePieces(route, bytes, piece_bytes));
  return MessageArrival{};
}

absl::StatusOr<MessageArrival> DeviceStream::RunWhole(Direction direction, const DeviceMessage& message,
                                                      absl::Time deadline, int64_t piece_bytes) {
  const DeviceSpan& span = message.span;
  const PieceRoute route{
      .transport = transport_, .peer = message.peer, .tag = message.tag, .deadline = deadline};
  RETURN_IF_ERROR(memory_.Ensure(*lane_, transport_, span.size_bytes));
  const absl::Span<std::byte> mirror = memory_.bytes().first(static_cast<size_t>(span.size_bytes));
  if (message.after.has_value()) RETURN_IF_ERROR(lane_->AwaitQueue(*message.after));
  if (direction == Direction::kSend) {
    RETURN_IF_ERROR(lane_->Download(*span.buffer, {span.offset_bytes}, mirror));
    RETURN_IF_ERROR(lane_->Wait(lane_->Record()));
    if (message.when_ready) message.when_ready();
    RETURN_IF_ERROR(SendPieces(route, mirror, piece_bytes));
    return MessageArrival{};
  }
  RETURN_IF_ERROR(ReceivePieces(route, mirror, piece_bytes));
  RETURN_IF_ERROR(lane_->Upload(mirror, *span.buffer, {span.offset_bytes}));
  last_arrival_ = lane_->Record();
  return MessageArrival{lane_.get(), *last_arrival_};
}

}  // namespace medley
