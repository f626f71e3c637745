#include "runtime/engine/exec/gather_segments.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "runtime/base/progress.h"
#include "runtime/base/status_macros.h"
#include "runtime/engine/exec/channels.h"
#include "runtime/ir/model/model_share.h"

namespace medley {
namespace {

using Part = ParameterArena::Part;

// The messages between two ranks come in one order, that of
// rounds and parts, so that they need no more to be told apart.
constexpr MessageTag kTag{.kind = MessageTag::Kind::kReshard, .channel = kCheckpointChannel};

absl::Span<std::byte> AsBytes(std::vector<float>& values) {
  return {reinterpret_cast<std::byte*>(values.data()), values.size() * sizeof(float)};
}

// Of values that lie one after another.
int64_t CountOf(const std::vector<OwnedRun>& runs) {
  return runs.empty() ? 0 : runs.back().place + runs.back().elements;
}

}  // namespace

std::vector<float>& SegmentValues::of(Part part) {
  return part == Part::kFirstMoment ? m : part == Part::kSecondMoment ? v : parameters;
}

void PlaceHeld(const ModelConfig& config, SegmentId segment, const ModelShare& share,
               absl::Span<const OwnedRun> runs, absl::Span<const float> values, absl::Span<float> whole) {
  int64_t first = 0;  // of the tensor, among what the rank holds of the segment
  for (const ParameterSpec& tensor : SegmentParameters(config, segment)) {
    const std::vector<HeldRun> held = HeldRuns(config, tensor, share);
    ForEachOwned(held, first, runs, [&](int64_t to, int64_t from, int64_t count) {
      std::copy_n(values.begin() + from, count, whole.begin() + to);
    });
    if (!held.empty()) first += held.back().held + held.back().count;
    whole.remove_prefix(tensor.elements);
  }
}

SegmentGather::SegmentGather(const Plan& plan, Rank rank, const ModelConfig& config,
                             const ParameterArena& arena, Transport& transport, ActivityBoard& board)
    : plan_(plan), rank_(rank), config_(config), arena_(arena), transport_(transport), board_(board) {
  for (UnitId unit = 0; unit < static_cast<int>(plan.units.size()); ++unit) {
    for (int member = 0; member < static_cast<int>(plan.units[unit].devices.size()); ++member)
      places_.push_back({unit, member});
  }
  const UnitId unit = places_[rank].unit;
  first_rank_ = plan.shards_optimizer ? Rank(0) : FirstRankOf(plan, unit);
  saved_.resize(plan.shards_optimizer ? RankCount(plan) : plan.units[unit].devices.size());
  const std::vector<Rank> writers = SegmentWriters(plan, config);
  for (SegmentId segment = 0; segment < SegmentCount(config); ++segment) {
    const std::vector<UnitId> holders = HoldersOf(plan, config, segment);
    const auto sums = [&](UnitId holder) {
      return holders.size() > 1 || ShareKeys(plan.units[holder], config);
    };
    is_shared_.push_back(plan.shards_optimizer && std::any_of(holders.begin(), holders.end(), sums));
    const int index = writers[segment] - first_rank_;
    if (index < 0 || index >= static_cast<int>(saved_.size())) continue;  // of another unit
    saved_[index].push_back(segment);
    rounds_ = std::max(rounds_, static_cast<int>(saved_[index].size()));
  }
}

std::optional<SegmentId> SegmentGather::SegmentOf(int round, Rank rank) const {
  const std::vector<SegmentId>& saved = saved_[rank - first_rank_];
  return round < static_cast<int>(saved.size()) ? std::optional(saved[round]) : std::nullopt;
}

bool SegmentGather::IsCut(UnitId unit, SegmentId segment) const {
  if (plan_.units[unit].devices.size() == 1) return false;
  const std::vector<ParameterSpec> tensors = SegmentParameters(config_, segment);
  return std::any_of(tensors.begin(), tensors.end(),
                     [](const ParameterSpec& tensor) { return tensor.cut != TensorCut::kNone; });
}

const SegmentGather::Holding& SegmentGather::HoldingOf(Rank rank) {
  const auto [unit, member] = places_[rank];
  for (const Holding& holding : holdings_) {
    if (holding.member == member && HoldAlike(holding.unit, plan_.units[unit])) return holding;
  }
  const Unit& of = plan_.units[unit];
  return holdings_.emplace_back(
      Holding{of, member, LayoutOf(LocalModel(config_, ShareOf(plan_, rank, config_)), of.chunks),
              SlicesOf(plan_, rank, config_)});
}

std::vector<OwnedRun> SegmentGather::OwnedBy(Rank rank, SegmentId segment) {
  if (!HoldsSegment(config_, plan_.units[places_[rank].unit].chunks, segment)) return {};
  const Holding& holding = HoldingOf(rank);
  return OwnedOfSegment(holding.layout, holding.slices, rank, segment);
}

std::vector<OwnedRun> SegmentGather::GivenBy(Rank giver, Rank writer, SegmentId segment, Part part) {
  const UnitId unit = places_[giver].unit;
  const Unit& of = plan_.units[unit];
  const bool is_sharded = part != Part::kParameter ||
                          (of.lives_on_peers() && of.parameters_have_windows() && IsLayer(config_, segment));
  if (is_sharded && is_shared_[segment]) return OwnedBy(giver, segment);
  if (unit != places_[writer].unit || (giver != writer && !IsCut(unit, segment))) return {};
  return {{.elements = SegmentElements(LocalModel(config_, ShareOf(plan_, giver, config_)), segment)}};
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
  // With another rank: its part of this rank's segment, and this rank's of its.
  struct Pair {
    Rank rank;
    std::vector<OwnedRun> runs;  // that come
    std::vector<float> incoming, outgoing;
    std::unique_ptr<Transfer> receive, send;  // null: there is nothing; destroyed before the values
  };
  std::vector<Pair> pairs;
  const Rank end = first_rank_ + static_cast<int>(saved_.size());
  for (Rank rank = first_rank_; rank < end; ++rank) {
    if (rank != rank_) pairs.push_back({.rank = rank});
  }
  const std::optional<SegmentId> own = SegmentOf(round);
  for (Pair& pair : pairs) {
    if (!own.has_value()) break;
    Progress::OfProcess().Add();
    pair.runs = GivenBy(pair.rank, rank_, *own, part);
    if (CountOf(pair.runs) == 0) continue;
    pair.incoming.resize(CountOf(pair.runs));
    ASSIGN_OR_RETURN(pair.receive, transport_.Receive(pair.rank, kTag, AsBytes(pair.incoming)));
  }
  for (Pair& pair : pairs) {
    const std::optional<SegmentId> theirs = SegmentOf(round, pair.rank);
    if (!theirs.has_value()) continue;
    pair.outgoing.resize(CountOf(GivenBy(rank_, pair.rank, *theirs, part)));
    if (pair.outgoing.empty()) continue;
    RETURN_IF_ERROR(arena_.ReadSegment(part, *theirs, absl::MakeSpan(pair.outgoing)));
    ASSIGN_OR_RETURN(pair.send, transport_.Send(pair.rank, kTag, AsBytes(pair.outgoing)));
  }
  if (own.has_value()) {
    const std::vector<OwnedRun> runs = GivenBy(rank_, rank_, *own, part);
    if (CountOf(runs) == static_cast<int64_t>(whole.size())) {
      RETURN_IF_ERROR(arena_.ReadSegment(part, *own, whole));
    } else {
      std::vector<float> held(CountOf(runs));
      RETURN_IF_ERROR(arena_.ReadSegment(part, *own, absl::MakeSpan(held)));
      PlaceHeld(config_, *own, ShareOf(plan_, rank_, config_), runs, held, whole);
    }
  }
  for (Pair& pair : pairs) {
    if (pair.receive == nullptr) continue;
    RETURN_IF_ERROR(Await(*pair.receive, pair.rank));
    PlaceHeld(config_, *own, ShareOf(plan_, pair.rank, config_), pair.runs, pair.incoming, whole);
  }
  for (Pair& pair : pairs) {
    if (pair.send != nullptr) RETURN_IF_ERROR(Await(*pair.send, pair.rank));
  }
  return absl::OkStatus();
}

absl::Status SegmentGather::Await(Transfer& transfer, Rank rank) {
  // On the board while it is waited for, and not while this rank's own device copies.
  board_.BeginExchange("gather segments", {rank});
  const absl::Status status = transfer.Wait(absl::InfiniteFuture());
  board_.End(Stream::kCollective);
  Progress::OfProcess().Add();
  return Annotate(status, absl::StrCat("gathering segments with rank ", rank.value()));
}

}  // namespace medley
