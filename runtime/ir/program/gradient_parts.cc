#include "runtime/ir/program/gradient_parts.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "runtime/ir/model/model_share.h"

namespace medley {
namespace {

class Refinement {
 public:
  Refinement(const Plan& plan, const ModelConfig& config, const std::vector<UnitId>& units, Rank rank)
      : plan_(plan), config_(config), units_(units), place_(PlaceOf(plan, rank)) {
    for (const UnitId unit : units) shares_.push_back(SharesOf(plan.units[unit], config));
    own_ = std::find(units.begin(), units.end(), place_.unit) - units.begin();
    local_ = LocalModel(config, shares_[own_][place_.member]);
  }

  void Add(SegmentId segment) {
    const std::vector<ParameterSpec> whole = SegmentParameters(config_, segment),
                                     held = SegmentParameters(local_, segment);
    for (size_t t = 0; t < whole.size(); ++t) {
      if (whole[t].cut != TensorCut::kNone) {
        AddCut(whole[t]);
      } else if (units_.size() > 1) {
        GradientPart& part = PartOf({AllRanks(), /*is_cut=*/false});
        part.counts = place_.member == 0;
        Append(part, {.first = next_, .count = held[t].elements});
      }
      next_ += held[t].elements;
    }
  }

  std::vector<GradientPart> Take() {
    std::vector<GradientPart> parts;
    for (auto& [key, part] : parts_) {
      if (part.holders.size() > 1) parts.push_back(std::move(part));
    }
    return parts;
  }

 private:
  std::vector<Rank> AllRanks() const {
    std::vector<Rank> ranks;
    for (size_t u = 0; u < units_.size(); ++u) {
      for (int m = 0; m < static_cast<int>(shares_[u].size()); ++m) ranks.push_back(first_ranks_[u] + m);
    }
    return ranks;
  }

  // The holders, and whether it is of tensors that are cut: keys and values may be with all ranks, too, and of these each
  // has a gradient of its own.
  using PartKey = std::pair<std::vector<Rank>, bool>;

  GradientPart& PartOf(PartKey key) {
    GradientPart& part = parts_[key];
    part.holders = std::move(key.first);
    return part;
  }

  static void Append(GradientPart& part, const ArenaRuns& runs) {
    part.elements += runs.count * runs.repeats;
    part.runs.push_back(runs);
  }

  void AddCut(const ParameterSpec& tensor) {
    // Wherever a unit cuts, all are cut.
    std::set<int> ends;
    std::vector<std::vector<std::vector<IndexRange>>> held;  // of each unit and member
    for (const std::vector<ModelShare>& shares : shares_) {
      held.emplace_back();
      for (const ModelShare& share : shares) {
        held.back().push_back(HeldIndices(config_, tensor, share));
        for (const IndexRange& range : held.back().back()) ends.insert({range.first, range.end});
      }
    }
    const CutShape shape = CutShapeOf(tensor);
    const std::vector<IndexRange>& own = held[own_][place_.member];
    int64_t own_indices = 0;
    for (const IndexRange& range : own) own_indices += range.size();
    for (auto end = std::next(ends.begin()); end != ends.end(); ++end) {
      const IndexRange piece = {*std::prev(end), *end};
      const int64_t at = PlaceIn(own, piece.first);
      if (at < 0) continue;
      Append(PartOf({HoldersOf(held, piece.first), /*is_cut=*/true}), {.first = next_ + at * shape.inner,
                                                                       .count = piece.size() * shape.inner,
                                                                       .stride = own_indices * shape.inner,
                                                                       .repeats = shape.outer});
    }
  }

  // Of `index` among the held ones; -1: it is not held.
  static int64_t PlaceIn(const std::vector<IndexRange>& held, int index) {
    int64_t before = 0;
    for (const IndexRange& range : held) {
      if (index >= range.first && index < range.end) return before + index - range.first;
      before += range.size();
    }
    return -1;
  }

  std::vector<Rank> HoldersOf(const std::vector<std::vector<std::vector<IndexRange>>>& held,
                              int index) const {
    std::vector<Rank> holders;
    for (size_t u = 0; u < units_.size(); ++u) {
      for (int member = 0; member < static_cast<int>(held[u].size()); ++member) {
        if (PlaceIn(held[u][member], index) >= 0) holders.push_back(first_ranks_[u] + member);
      }
    }
    return holders;
  }

  const Plan& plan_;
  const ModelConfig& config_;
  const std::vector<UnitId>& units_;
  const std::vector<Rank> first_ranks_ = FirstRanksOf(plan_, units_);
  const RankPlace place_;
  std::vector<std::vector<ModelShare>> shares_;  // of each unit
  size_t own_ = 0;                               // the rank's unit among them
  ModelConfig local_;
  int64_t next_ = 0;  // element of the rank's arena
  std::map<PartKey, GradientPart> parts_;
};

}  // namespace

std::vector<GradientPart> PartsOf(const Plan& plan, const ModelConfig& config,
                                  const std::vector<UnitId>& units, Rank rank, SegmentId first_segment,
                                  SegmentId end_segment) {
  Refinement refinement(plan, config, units, rank);
  for (SegmentId segment = first_segment; segment < end_segment; ++segment) refinement.Add(segment);
  return refinement.Take();
}

}  // namespace medley
