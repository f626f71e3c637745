#include "comm/reshard/reshard.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/clock.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

// How long Wait looks at one transfer only, while others may be done and let further ones start.
constexpr absl::Duration kGlance = absl::Microseconds(500);

const ReshardSlice* Find(const std::vector<ReshardSlice>& slices, int rank) {
  for (const ReshardSlice& slice : slices) {
    if (slice.rank == rank) return &slice;
  }
  return nullptr;
}

absl::Status CheckSize(const char* name, size_t bytes, const ReshardSlice* slice,
                       const ReshardProblem& problem) {
  const int64_t expected =
      slice == nullptr ? 0 : problem.rows * (slice->column_end - slice->column_begin) * problem.element_bytes;
  if (bytes == static_cast<size_t>(expected)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, " is of ", bytes, " bytes, and this rank's slice of ", expected));
}

}  // namespace

struct Reshard::Step {
  Step(const ReshardMessage& message, size_t index, const ReshardSlice& slice, int64_t element_bytes)
      : message(message), index(index), piece(message, slice, element_bytes) {}
  const ReshardMessage& message;
  const size_t index;  // in the plan
  const Piece piece;
  bool done = false;
  Step* brought_by = nullptr;            // the receive whose bytes this send passes on
  int passed_on_by = 0;                  // sends under way or to come that pass on the bytes of this receive
  std::byte* bytes = nullptr;            // of piece.bytes()
  std::unique_ptr<std::byte[]> scratch;  // where they are, unless in the slice
  std::unique_ptr<Transfer> transfer;    // last, to be destroyed before its bytes are
};

Reshard::Reshard(Transport& transport, const ReshardPlan& plan, const Options& options,
                 absl::Span<const std::byte> source, absl::Span<std::byte> target)
    : transport_(transport), plan_(plan), options_(options), source_(source), target_(target) {}

Reshard::~Reshard() {
  // A step's send may read the scratch of another.
  for (Step* step : under_way_) step->transfer.reset();
}

absl::StatusOr<std::unique_ptr<Reshard>> Reshard::Start(Transport& transport, const ReshardPlan& plan,
                                                        const Options& options,
                                                        absl::Span<const std::byte> source,
                                                        absl::Span<std::byte> target) {
  std::unique_ptr<Reshard> reshard(new Reshard(transport, plan, options, source, target));
  const ReshardProblem& problem = plan.problem;
  RETURN_IF_ERROR(CheckSize("source", source.size(), Find(problem.senders, transport.rank()), problem));
  RETURN_IF_ERROR(CheckSize("target", target.size(), Find(problem.receivers, transport.rank()), problem));
  reshard->MakeSteps();
  RETURN_IF_ERROR(reshard->Advance());
  return reshard;
}

void Reshard::MakeSteps() {
  const ReshardProblem& problem = plan_.problem;
  const ReshardSlice* sender = Find(problem.senders, transport_.rank());
  const ReshardSlice* receiver = Find(problem.receivers, transport_.rank());
  const ReshardSlice* slice = sender != nullptr ? sender : receiver;
  std::map<size_t, Step*> by_index;
  for (size_t i = 0; i < plan_.messages.size(); ++i) {
    const ReshardMessage& message = plan_.messages[i];
    const bool sends = message.from == transport_.rank();
    if (!sends && message.to != transport_.rank()) continue;
    Step& step = *steps_.emplace_back(std::make_unique<Step>(message, i, *slice, problem.element_bytes));
    (sends ? sends_ : receives_).push_back(&step);
    by_index[i] = &step;
    all_bytes_ += static_cast<int64_t>(step.piece.bytes());
    if (sends && !message.crosses()) {
      step.brought_by = by_index[static_cast<size_t>(message.passes_on)];
      ++step.brought_by->passed_on_by;
    }
  }
}

bool Reshard::PlaceBytes(Step& step) {
  const bool receives = step.message.to == transport_.rank();
  if (const std::optional<size_t> at = step.piece.contiguous_at()) {
    // Sends only read.
    step.bytes = receives ? target_.data() + *at : const_cast<std::byte*>(source_.data()) + *at;
    return true;
  }
  const size_t bytes = step.piece.bytes();
  if (scratch_used_bytes_ > 0 && scratch_used_bytes_ + bytes > options_.scratch_bytes) return false;
  scratch_used_bytes_ += bytes;
  step.scratch.reset(new std::byte[bytes]);
  step.bytes = step.scratch.get();
  return true;
}

void Reshard::FreeScratch(Step& step) {
  if (step.scratch != nullptr) scratch_used_bytes_ -= step.piece.bytes();
  step.scratch.reset();
}

absl::Status Reshard::StartReceives() {
  for (; next_receive_ < receives_.size(); ++next_receive_) {
    Step& step = *receives_[next_receive_];
    if (!PlaceBytes(step)) return absl::OkStatus();
    ASSIGN_OR_RETURN(step.transfer,
                     transport_.Receive(step.message.from,
                                        {MessageTag::Kind::kReshard, options_.channel, options_.sequence},
                                        {step.bytes, step.piece.bytes()}));
    under_way_.push_back(&step);
  }
  return absl::OkStatus();
}

// In the plan's order, also among those that pass on: the receiver expects them so.
absl::Status Reshard::StartSends() {
  for (; next_send_ < sends_.size(); ++next_send_) {
    Step& step = *sends_[next_send_];
    if (step.brought_by != nullptr) {
      if (!step.brought_by->done) return absl::OkStatus();
      step.bytes = step.brought_by->bytes;
    } else {
      if (!PlaceBytes(step)) return absl::OkStatus();
      if (step.scratch != nullptr) step.piece.Pack(source_, step.bytes);
    }
    ASSIGN_OR_RETURN(
        step.transfer,
        transport_.Send(step.message.to, {MessageTag::Kind::kReshard, options_.channel, options_.sequence},
                        {step.bytes, step.piece.bytes()}));
    under_way_.push_back(&step);
  }
  return absl::OkStatus();
}

absl::Status Reshard::Finish(Step& step) {
  RETURN_IF_ERROR(Annotate(step.transfer->Wait(absl::InfinitePast()), Describe(step)));
  step.transfer.reset();
  step.done = true;
  done_bytes_ += static_cast<int64_t>(step.piece.bytes());
  if (step.message.to == transport_.rank()) {
    if (step.scratch != nullptr) step.piece.Unpack(step.bytes, target_);
    if (step.passed_on_by == 0) FreeScratch(step);
  } else if (step.brought_by == nullptr) {
    FreeScratch(step);
  } else if (--step.brought_by->passed_on_by == 0) {
    FreeScratch(*step.brought_by);
  }
  return absl::OkStatus();
}

absl::Status Reshard::Collect() {
  size_t kept = 0;
  absl::Status status;
  for (Step* step : under_way_) {
    if (status.ok() && step->transfer->Done()) status = Finish(*step);
    if (!step->done) under_way_[kept++] = step;
  }
  under_way_.resize(kept);
  while (first_open_ < steps_.size() && steps_[first_open_]->done) ++first_open_;
  return status;
}

// Until nothing more can be done at once.
absl::Status Reshard::Advance() {
  int64_t before = -1;
  while (failure_.ok() && before != done_bytes_) {
    before = done_bytes_;
    for (const auto& part : {&Reshard::StartReceives, &Reshard::StartSends, &Reshard::Collect}) {
      if (failure_.ok()) failure_ = (this->*part)();
    }
  }
  return failure_;
}

absl::StatusOr<bool> Reshard::Progress() {
  RETURN_IF_ERROR(Advance());
  return first_open_ == steps_.size();
}

absl::Status Reshard::Wait(absl::Time deadline) {
  while (true) {
    ASSIGN_OR_RETURN(const bool done, Progress());
    if (done) return absl::OkStatus();
    // The first that is not done has started: nothing before it holds scratch or is still to be passed on.
    Step& step = *steps_[first_open_];
    const absl::Status status = step.transfer->Wait(std::min(deadline, Now() + kGlance));
    if (absl::IsDeadlineExceeded(status) && Now() >= deadline) {
      return absl::DeadlineExceededError(absl::StrCat(Describe(step), ": not done at the deadline; ",
                                                      done_bytes_, " of ", all_bytes_,
                                                      " bytes are: ", status.message()));
    }
  }
}

std::string Reshard::Describe(const Step& step) const {
  return absl::StrCat("re-sharding ", plan_.problem.rows, " x ", plan_.problem.columns, ", message ",
                      step.index, " of ", plan_.messages.size(), ", rank ", step.message.from, " to rank ",
                      step.message.to);
}

}  // namespace medley
