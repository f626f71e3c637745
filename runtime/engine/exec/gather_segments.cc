#include "runtime/engine/exec/gather_segments.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "runtime/base/progress.h"
#include "runtime/base/status_macros.h"
#include "runtime/ir/model/model_share.h"
#include "runtime/ir/program/gradient_slices.h"

namespace medley {
namespace {

using Part = ParameterArena::Part;

// On a channel that nothing else of this kind uses. The messages between two ranks come in one order, that of
// rounds and parts, so that they need no more to be told apart.
constexpr MessageTag kTag{.kind = MessageTag::Kind::kReshard, .channel = kMaximumChannels - 1};

absl::Span<std::byte> AsBytes(std::vector<float>& values) {
  return {reinterpret_cast<std::byte*>(values.data()), values.size() * sizeof(float)};
}

}  // namespace

std::vector<float>& SegmentValues::of(Part part) {
  return part == Part::kFirstMoment ? m : part == Part::kSecondMoment ? v : parameters;
}

void PlaceHeld(const ModelConfig& config, SegmentId segment, const ModelShare& share,
               absl::Span<const float> held, absl::Span<float> whole) {
  for (const ParameterSpec& tensor : SegmentParameters(config, segment)) {
    int64_t count = 0;
    for (const HeldRun& run : HeldRuns(config, tensor, share)) {
      std::copy_n(held.begin() + run.held, run.count, whole.begin() + run.whole);
      count += run.count;
    }
    held.remove_prefix(count);
    whole.remove_prefix(tensor.elements);
  }
}

SegmentGather::SegmentGather(const Plan& plan, Rank rank, const ModelConfig& config,
                             const ParameterArena& arena, Transport& transport, ActivityBoard& board)
    : config_(config),
      arena_(arena),
      transport_(transport),
      board_(board),
      first_rank_(FirstRankOf(plan, PlaceOf(plan, rank).unit)),
      member_(PlaceOf(plan, rank).member),
      shares_(SharesOf(plan.units[PlaceOf(plan, rank).unit], config)),
      saved_(shares_.size()) {
  const std::vector<Rank> writers = SegmentWriters(plan, config);
  for (SegmentId segment = 0; segment < SegmentCount(config); ++segment) {
    const int member = writers[segment] - first_rank_;
    if (member < 0 || member >= static_cast<int>(shares_.size())) continue;  // of another unit
    saved_[member].push_back(segment);
    rounds_ = std::max(rounds_, static_cast<int>(saved_[member].size()));
  }
}

std::optional<SegmentId> SegmentGather::SegmentOf(int round, int member) const {
  const std::vector<SegmentId>& saved = saved_[member];
  return round < static_cast<int>(saved.size()) ? std::optional(saved[round]) : std::nullopt;
}

bool SegmentGather::IsCut(SegmentId segment) const {
  if (IsAlone()) return false;
  const std::vector<ParameterSpec> tensors = SegmentParameters(config_, segment);
  return std::any_of(tensors.begin(), tensors.end(),
                     [](const ParameterSpec& tensor) { return tensor.cut != TensorCut::kNone; });
}

int64_t SegmentGather::HeldBy(int member, SegmentId segment) const {
  return SegmentElements(LocalModel(config_, shares_[member]), segment);
}

absl::StatusOr<std::optional<SegmentValues>> SegmentGather::Gather(int round) {
  std::optional<SegmentValues> values;
  if (const std::optional<SegmentId> own = SegmentOf(round); own.has_value())
    values.emplace(SegmentElements(config_, *own));
  for (const Part part : kSavedParts) {
    RETURN_IF_ERROR(
        Exchange(round, part, values.has_value() ? absl::MakeSpan(values->of(part)) : absl::Span<float>()));
  }
  return values;
}

absl::Status SegmentGather::Exchange(int round, Part part, absl::Span<float> whole) {
  // With another rank of the unit: its part of this rank's segment, and this rank's of its.
  struct Pair {
    int member = 0;
    std::vector<float> incoming, outgoing;
    std::unique_ptr<Transfer> receive, send;  // null: there is nothing; destroyed before the values
  };
  std::vector<Pair> pairs;
  for (int member = 0; member < static_cast<int>(shares_.size()); ++member) {
    if (member != member_) pairs.push_back({.member = member});
  }
  const std::optional<SegmentId> own = SegmentOf(round);
  if (own.has_value() && IsCut(*own)) {
    for (Pair& pair : pairs) {
      pair.incoming.resize(HeldBy(pair.member, *own));
      ASSIGN_OR_RETURN(pair.receive,
                       transport_.Receive(first_rank_ + pair.member, kTag, AsBytes(pair.incoming)));
    }
  }
  for (Pair& pair : pairs) {
    const std::optional<SegmentId> theirs = SegmentOf(round, pair.member);
    if (!theirs.has_value() || !IsCut(*theirs)) continue;
    pair.outgoing.resize(HeldBy(member_, *theirs));
    RETURN_IF_ERROR(arena_.ReadSegment(part, *theirs, absl::MakeSpan(pair.outgoing)));
    ASSIGN_OR_RETURN(pair.send, transport_.Send(first_rank_ + pair.member, kTag, AsBytes(pair.outgoing)));
  }
  if (own.has_value() && !IsCut(*own)) RETURN_IF_ERROR(arena_.ReadSegment(part, *own, whole));
  if (own.has_value() && IsCut(*own)) {
    std::vector<float> held(HeldBy(member_, *own));
    RETURN_IF_ERROR(arena_.ReadSegment(part, *own, absl::MakeSpan(held)));
    PlaceHeld(config_, *own, shares_[member_], held, whole);
  }
  for (Pair& pair : pairs) {
    if (pair.receive == nullptr) continue;
    RETURN_IF_ERROR(Await(*pair.receive, pair.member));
    PlaceHeld(config_, *own, shares_[pair.member], pair.incoming, whole);
  }
  for (Pair& pair : pairs) {
    if (pair.send != nullptr) RETURN_IF_ERROR(Await(*pair.send, pair.member));
  }
  return absl::OkStatus();
}

absl::Status SegmentGather::Await(Transfer& transfer, int member) {
  const int rank = first_rank_ + member;
  // On the board while it is waited for, and not while this rank's own device copies.
  board_.BeginExchange("gather segments", {rank});
  const absl::Status status = transfer.Wait(absl::InfiniteFuture());
  board_.End(Stream::kCollective);
  Progress::OfProcess().Add();
  return Annotate(status, absl::StrCat("gathering segments with rank ", rank));
}

}  // namespace medley
