#include "coordinator/predictor/group_buckets.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "coordinator/predictor/library_sums.h"
#include "coordinator/predictor/reductions.h"
#include "runtime/ir/program/gradient_slices.h"
#include "runtime/ir/program/holder_runs.h"

namespace medley {
namespace {

int Members(const std::vector<StageGroup>& groups, const std::vector<int>& holders) {
  size_t members = 0;
  for (const int g : holders) members += groups[g].devices.size();
  return static_cast<int>(members);
}

// How the units of some groups sum what all of them hold.
class HoldersSum {
 public:
  HoldersSum(const std::vector<StageGroup>& groups, const std::vector<int>& holders, bool live_elsewhere,
             SumsByMakeUp& sums)
      : members_(Members(groups, holders)) {
    int at_once = least_degree_;
    bool on_hosts = false;
    std::vector<int> devices;
    for (const int g : holders) {
      const StageGroup& group = groups[g];
      on_hosts = on_hosts || SumsOnHosts(group.degree(), live_elsewhere);
      finest_ = std::max(finest_, group.degree());
      least_degree_ = std::min(least_degree_, group.degree());
      at_once = std::min(at_once, group.ranks_on_host);
      least_weight_ = std::min(least_weight_, group.unit->optimizer_weight);
      all_weights_ += group.unit->optimizer_weight * static_cast<double>(group.devices.size());
      devices.insert(devices.end(), group.devices.begin(), group.devices.end());
    }
    sums_ = &sums.Over(std::move(devices), at_once, on_hosts);
  }

  int members() const { return members_; }
  double all_weights() const { return all_weights_; }

  // A part for each rank of the units with the most; of others a rank has several, one after another.
  double Seconds(int64_t elements, SumPart part) const {
    if (members_ < 2) return 0;
    int64_t of_part = elements / finest_;
    if (part != SumPart::kWhole) of_part = ElementsAsEven(of_part, members_, least_weight_ / all_weights_);
    return sums_->Seconds(of_part, part) * (static_cast<double>(finest_) / least_degree_);
  }

 private:
  int members_;
  int finest_ = 1, least_degree_ = std::numeric_limits<int>::max(), least_weight_ = least_degree_;
  double all_weights_ = 0;
  GroupSums* sums_ = nullptr;
};

}  // namespace

std::vector<GroupBucket> BucketsOf(const ModelConfig& model, bool shards_optimizer,
                                   const std::vector<StageGroup>& groups, SumsByMakeUp& sums) {
  const auto holders_of = [&](SegmentId segment) {
    std::vector<int> holders;
    for (size_t g = 0; g < groups.size(); ++g) {
      if (HoldsSegment(model, groups[g].unit->chunks, segment)) holders.push_back(static_cast<int>(g));
    }
    return holders;
  };
  const auto runs = HolderRunsOf(FilledSegments(model), holders_of);
  const auto is_summed = [&](const auto& run) { return Members(groups, run.holders) > 1; };
  std::vector<GroupBucket> buckets;
  for (const int r : OrderOfSums(model, runs, is_summed)) {
    const auto& [holders, first_segment, end_segment] = runs[r];
    // Layers that live elsewhere have slices of their own.
    const auto live_elsewhere = [&, &holders = holders](SegmentId segment) {
      return std::any_of(holders.begin(), holders.end(),
                         [&](int g) { return LivesElsewhere(model, segment, *groups[g].unit); });
    };
    for (SegmentId end = end_segment, first = end; end > first_segment; end = first) {
      const bool elsewhere = live_elsewhere(end - 1);
      while (first > first_segment && live_elsewhere(first - 1) == elsewhere) first = first - 1;
      const HoldersSum sum(groups, holders, elsewhere, sums);
      for (const auto& [first_of_bucket, end_of_bucket] : CutIntoBuckets(model, first, end)) {
        GroupBucket& bucket = buckets.emplace_back(
            GroupBucket{holders, sum.members(), sum.all_weights(), first_of_bucket, end_of_bucket});
        for (SegmentId s = first_of_bucket; s < end_of_bucket; ++s)
          bucket.elements += SegmentElements(model, s);
        bucket.sum_seconds =
            sum.Seconds(bucket.elements, shards_optimizer ? SumPart::kScattered : SumPart::kWhole);
        if (shards_optimizer) bucket.gather_seconds = sum.Seconds(bucket.elements, SumPart::kGathered);
      }
    }
  }
  return buckets;
}

}  // namespace medley
