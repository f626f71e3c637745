#include "comm/collective/message_stream.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "comm/collective/gone_watch.h"
#include "comm/collective/run_collective.h"
#include "comm/collective/wire_math.h"
#include "runtime/base/clock.h"
#include "runtime/base/status_macros.h"

namespace medley {

namespace {

using Kind = CollectiveStep::Kind;

// A wait for a chunk that says that the link is slow, and not that the peer waits for a core.
constexpr absl::Duration kSlow = absl::Milliseconds(1);

}  // namespace

MessageStream::MessageStream(const StreamContext& context, int rank, std::vector<int> steps)
    : context_(context), rank_(rank), steps_(std::move(steps)), sends_(context.steps[steps_[0]].Sends()) {
  int64_t chunks = 0, longest = 0;
  bool scratch = false;
  for (const int step : steps_) {
    chunks += context_.progress.Chunks(step);
    const int64_t size = context_.steps[step].range.size(), count = context_.progress.Chunks(step);
    longest = std::max(longest, (size + count - 1) / count);
    scratch |= NeedsScratch(context_.steps[step]);
  }
  flights_.resize(std::min<int64_t>(chunks, sends_ ? kSendsAhead : kReceivesAhead));
  const bool shares_memory = context_.shares_memory[context_.steps[steps_[0]].peer];
  const size_t first = sends_ ? kSendsAhead : shares_memory ? 1 : kFirstReceivesAhead;
  most_flying_ = std::min(flights_.size(), first);
  if (!scratch) return;
  slot_bytes_ = (longest * WireBytes(context_.wire) + 63) / 64 * 64;
  scratch_.reset(
      new std::byte[slot_bytes_ * flights_.size()]);  // not cleared: pages that are not used are not there
  for (size_t slot = flights_.size(); slot-- > 0;) free_slots_.push_back(scratch_.get() + slot * slot_bytes_);
}

bool MessageStream::NeedsScratch(const CollectiveStep& step) const {
  return context_.wire != WireType::kF32 || step.kind == Kind::kReceiveAndAdd;
}

absl::StatusOr<bool> MessageStream::Land(absl::Time deadline) {
  if (flying_ == 0) return false;
  Flight& flight = Oldest();
  if (!flight.transfer->Done()) return false;
  const absl::Status status = flight.transfer->Wait(deadline);
  if (!status.ok()) return Describe(status, flight.step);
  if (!sends_ && flight.scratch != nullptr) {
    const int64_t chunk = context_.progress.DoneChunks(flight.step);
    if (!context_.progress.Ready(flight.step, chunk)) return false;
    Take(flight);
  }
  // A send with scratch was done when its elements were there.
  if (!sends_ || flight.scratch == nullptr) context_.progress.Advance(flight.step);
  if (flight.scratch != nullptr) free_slots_.push_back(flight.scratch);
  flight.transfer.reset();
  oldest_ = (oldest_ + 1) % flights_.size();
  --flying_;
  return true;
}

void MessageStream::Take(const Flight& flight) {
  float* const own = context_.values.data() + flight.range.begin;
  const size_t count = flight.range.size();
  const bool adds = context_.steps[flight.step].kind == Kind::kReceiveAndAdd;
  if (context_.wire == WireType::kF32) {
    AddFloats(own, reinterpret_cast<const float*>(flight.scratch), count);
  } else if (adds) {
    AddBf16(own, reinterpret_cast<const uint16_t*>(flight.scratch), count);
  } else {
    WidenBf16(own, reinterpret_cast<const uint16_t*>(flight.scratch), count);
  }
}

absl::StatusOr<bool> MessageStream::LaunchAll() {
  bool any = false;
  for (bool more = true; more;) {
    ASSIGN_OR_RETURN(more, Launch());
    any |= more;
  }
  return any;
}

absl::StatusOr<bool> MessageStream::Launch() {
  if (next_step_ == steps_.size() || flying_ >= most_flying_) return false;
  const int index = steps_[next_step_];
  const CollectiveStep& step = context_.steps[index];
  const bool scratch = NeedsScratch(step);
  if ((sends_ || !scratch) && !context_.progress.Ready(index, next_chunk_)) return false;
  Flight& flight = flights_[(oldest_ + flying_) % flights_.size()];
  flight.step = index;
  flight.range = context_.progress.Chunk(index, next_chunk_);
  flight.scratch = scratch ? free_slots_.back() : nullptr;
  absl::StatusOr<std::unique_ptr<Transfer>> posted = Post(flight, step);
  if (!posted.ok()) return Describe(posted.status(), index);
  flight.transfer = *std::move(posted);
  ++flying_;
  if (scratch) free_slots_.pop_back();
  if (sends_ && scratch) context_.progress.Advance(index);
  if (++next_chunk_ == context_.progress.Chunks(index)) {
    next_chunk_ = 0;
    ++next_step_;
  }
  return true;
}

absl::StatusOr<std::unique_ptr<Transfer>> MessageStream::Post(const Flight& flight,
                                                              const CollectiveStep& step) {
  float* const own = context_.values.data() + flight.range.begin;
  const size_t count = flight.range.size();
  std::byte* const memory = flight.scratch != nullptr ? flight.scratch : reinterpret_cast<std::byte*>(own);
  if (sends_ && flight.scratch != nullptr) {
    uint16_t* const narrow = reinterpret_cast<uint16_t*>(flight.scratch);
    if (step.kind == Kind::kSendFinal) {
      NarrowAndRound(narrow, own, count);
    } else {
      NarrowToBf16(narrow, own, count);
    }
  }
  // Chunks of a message follow each other under one tag.
  const MessageTag tag{MessageTag::Kind::kReduce, context_.channel,
                       static_cast<uint32_t>(next_step_ % GoneWatch::kSequence)};
  const absl::Span<std::byte> bytes(memory, count * WireBytes(context_.wire));
  if (sends_) return context_.transport.Send(rank_, tag, bytes);
  return context_.transport.Receive(rank_, tag, bytes);
}

absl::Status MessageStream::AwaitOldest(absl::Time until, absl::Time deadline) {
  const absl::Time begin = Now();
  const absl::Status status = Oldest().transfer->Wait(std::min(until, deadline));
  const absl::Time end = Now();
  if (end - begin > kSlow) most_flying_ = std::min(flights_.size(), 2 * most_flying_);
  if (absl::IsDeadlineExceeded(status) && end < deadline) return absl::OkStatus();
  return status.ok() ? status : Describe(status, OldestStep());
}

absl::Status MessageStream::Describe(const absl::Status& status, int step) const {
  const int64_t bytes = WireBytes(context_.wire);
  return Annotate(
      status, absl::StrCat("collective ", sends_ ? "to" : "from", " rank ", rank_, ", step ", step + 1,
                           " of ", context_.steps.size(), ", ", context_.progress.DoneElements(step) * bytes,
                           " of ", context_.steps[step].range.size() * bytes, " bytes done"));
}

}  // namespace medley
