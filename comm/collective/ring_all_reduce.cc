#include "comm/collective/ring_all_reduce.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "comm/collective/members.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

// Receives under way, and how far sends may run ahead. Four hide both the adding and a wake-up of the peer.
constexpr int kWindow = 4;
constexpr size_t kLargestChunk = kRingScratchBytes / kWindow / sizeof(float);
constexpr size_t kSmallestChunk = 4096;  // floats; below, a message costs more than the overlap gains

using Transfers = std::deque<std::unique_ptr<Transfer>>;

absl::Span<std::byte> AsBytes(absl::Span<float> s) {
  return {reinterpret_cast<std::byte*>(s.data()), s.size() * sizeof(float)};
}

// `values` as n segments of `chunks` chunks each.
class RingLayout {
 public:
  RingLayout(absl::Span<float> values, int segments) : values_(values), segments_(segments) {
    const size_t longest = (values.size() + segments - 1) / segments;
    const size_t chunk = std::clamp((longest + kWindow - 1) / kWindow, kSmallestChunk, kLargestChunk);
    chunks_ = static_cast<int>(std::max<size_t>(1, (longest + chunk - 1) / chunk));
  }

  int chunks() const { return chunks_; }

  // `segment` counts around the ring and may be negative.
  absl::Span<float> Chunk(int segment, int chunk) const {
    const size_t place = ((segment % segments_) + segments_) % segments_;
    const size_t begin = values_.size() * place / segments_;
    const size_t length = values_.size() * (place + 1) / segments_ - begin;
    const size_t first = length * chunk / chunks_;
    return values_.subspan(begin + first, length * (chunk + 1) / chunks_ - first);
  }

  size_t LongestChunk() const {
    const size_t longest = (values_.size() + segments_ - 1) / segments_;
    return (longest + chunks_ - 1) / chunks_;
  }

 private:
  absl::Span<float> values_;
  int segments_;
  int chunks_;
};

// One turn around the ring: n-1 steps, in each of which every chunk of a segment goes to `next` and one comes
// from `previous`. What comes in a step goes out in the next.
class RingTurn {
 public:
  struct Neighbours {
    int previous, next;
  };
  struct Item {
    int step, chunk;
  };
  RingTurn(Transport& transport, Neighbours neighbours, uint16_t channel, absl::Time deadline)
      : transport_(transport), neighbours_(neighbours), channel_(channel), deadline_(deadline) {}

  // `incoming` names where an item arrives, at most kWindow - 1 items before the one that `arrived` saw last.
  absl::Status Run(int steps, int chunks, uint32_t first_sequence,
                   absl::FunctionRef<absl::Span<float>(Item)> outgoing,
                   absl::FunctionRef<absl::Span<float>(Item)> incoming,
                   absl::FunctionRef<void(Item)> arrived) {
    const int items = steps * chunks;
    // Only what came `chunks` items ago, or was here from the start, can go out.
    const int ahead = std::min(kWindow, chunks);
    const auto item = [&](int i) { return Item{i / chunks, i % chunks}; };
    int sent = 0, awaited = 0;
    for (int done = 0; done < items; ++done) {
      for (; awaited < std::min(items, done + kWindow); ++awaited) {
        RETURN_IF_ERROR(Receive(first_sequence + item(awaited).step, incoming(item(awaited))));
      }
      for (; sent < std::min(items, done + ahead); ++sent) {
        RETURN_IF_ERROR(Send(first_sequence + item(sent).step, outgoing(item(sent))));
      }
      RETURN_IF_ERROR(WaitOldest(receives_, "from", neighbours_.previous));
      arrived(item(done));
    }
    while (!sends_.empty()) RETURN_IF_ERROR(WaitOldest(sends_, "to", neighbours_.next));
    return absl::OkStatus();
  }

 private:
  MessageTag Tag(uint32_t sequence) const { return {MessageTag::Kind::kReduce, channel_, sequence}; }

  absl::Status Receive(uint32_t sequence, absl::Span<float> into) {
    ASSIGN_OR_RETURN(receives_.emplace_back(),
                     transport_.Receive(neighbours_.previous, Tag(sequence), AsBytes(into)));
    return absl::OkStatus();
  }

  absl::Status Send(uint32_t sequence, absl::Span<float> from) {
    // The next member has a receive posted for all but the last window of them: this cannot wait for itself.
    if (sends_.size() >= 2 * kWindow) RETURN_IF_ERROR(WaitOldest(sends_, "to", neighbours_.next));
    ASSIGN_OR_RETURN(sends_.emplace_back(), transport_.Send(neighbours_.next, Tag(sequence), AsBytes(from)));
    return absl::OkStatus();
  }

  absl::Status WaitOldest(Transfers& transfers, const char* direction, int peer) {
    const absl::Status status = transfers.front()->Wait(deadline_);
    if (!status.ok()) return Annotate(status, absl::StrCat("ring all-reduce ", direction, " rank ", peer));
    transfers.pop_front();
    return absl::OkStatus();
  }

  Transport& transport_;
  const Neighbours neighbours_;
  const uint16_t channel_;
  const absl::Time deadline_;
  Transfers sends_, receives_;
};

}  // namespace

absl::Status RingAllReduce(Transport& transport, absl::Span<const int> members, uint16_t channel,
                           absl::Span<float> values, absl::Time deadline) {
  ASSIGN_OR_RETURN(const int place, PlaceAmong(transport, members));
  const int n = static_cast<int>(members.size());
  if (n == 1 || values.empty()) return absl::OkStatus();
  const RingLayout layout(values, n);
  const int chunks = layout.chunks();
  std::vector<float> scratch(layout.LongestChunk() * kWindow);
  // Declared after what its transfers read and write.
  RingTurn turn(transport, {members[(place + n - 1) % n], members[(place + 1) % n]}, channel, deadline);

  const auto slot = [&](RingTurn::Item item) {
    const size_t index = (size_t{1} * item.step * chunks + item.chunk) % kWindow;
    const size_t length = layout.Chunk(place - item.step - 1, item.chunk).size();
    return absl::MakeSpan(scratch).subspan(index * layout.LongestChunk(), length);
  };
  RETURN_IF_ERROR(turn.Run(
      n - 1, chunks, /*first_sequence=*/0,
      [&](RingTurn::Item item) { return layout.Chunk(place - item.step, item.chunk); }, slot,
      [&](RingTurn::Item item) {
        const absl::Span<float> sum = layout.Chunk(place - item.step - 1, item.chunk);
        const absl::Span<const float> come = slot(item);
        for (size_t i = 0; i < sum.size(); ++i) sum[i] += come[i];
      }));
  return turn.Run(
      n - 1, chunks, /*first_sequence=*/static_cast<uint32_t>(n - 1),
      [&](RingTurn::Item item) { return layout.Chunk(place + 1 - item.step, item.chunk); },
      [&](RingTurn::Item item) { return layout.Chunk(place - item.step, item.chunk); },
      [](RingTurn::Item) {});
}

}  // namespace medley
