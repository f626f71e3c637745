#include "coordinator/predictor/step_of_groups.h"

#include <algorithm>
#include <utility>

#include "coordinator/predictor/alike_places.h"
#include "coordinator/predictor/communication_time.h"
#include "coordinator/predictor/sums_in_turn.h"
#include "runtime/ir/model/parameters.h"

namespace medley {
namespace {

class StepOfGroups {
 public:
  StepOfGroups(const PlanningProblem& problem, const SharedWays& ways, bool shards_optimizer,
               const std::vector<GroupBucket>& buckets, StageGroups groups)
      : problem_(problem),
        shards_optimizer_(shards_optimizer),
        buckets_(buckets),
        kinds_(std::move(groups.kinds)),
        groups_(std::move(groups.all)),
        places_(problem, ways, groups_),
        ends_(groups_.size()) {}

  double Seconds() {
    if (shards_optimizer_) GatherParameters();
    SumGradients();
    return EndSeconds();
  }

 private:
  // Of a group.
  struct End {
    bool sums = false;        // with others
    double free_seconds = 0;  // when it has done its sums
    double norm_seconds = 0;
    double own_part = 1;  // of the optimizer's state of what it holds, where that is shared
  };

  // Delays whatever waits for parameters.
  void GatherParameters() {
    std::vector<const GroupBucket*> gathered;
    std::vector<SumInTurn> gathers;
    for (auto bucket = buckets_.rbegin(); bucket != buckets_.rend(); ++bucket) {
      if (bucket->members < 2) continue;
      gathered.push_back(&*bucket);
      gathers.push_back(SumOf(*bucket, kGatheredBytesPerElement / 2, bucket->gather_seconds, 0));
    }
    Run(gathers);
    std::vector<std::vector<double>> there_seconds(groups_.size());  // of each group, of the model's blocks
    for (std::vector<double>& of_blocks : there_seconds) of_blocks.resize(problem_.shape.model.blocks(), 0);
    for (size_t i = 0; i < gathers.size(); ++i) {
      for (const int g : gathers[i].holders)
        Arrive(*gathered[i], groups_[g], gathers[i].end_seconds, there_seconds[g]);
    }
    for (const GroupsOfKind& kind : kinds_) {
      double late_seconds = 0;
      for (const std::vector<GroupsOfKind::Stage>& stages : kind.routes)
        late_seconds = std::max(late_seconds, LateSeconds(stages, there_seconds));
      for (int g = kind.first; g < kind.end; ++g) groups_[g].Delay(late_seconds);
    }
  }

  // Of the blocks of a group that use it.
  void Arrive(const GroupBucket& bucket, const StageGroup& group, double seconds,
              std::vector<double>& there_seconds) const {
    for (const StageGroup::Range& range : group.ranges) {
      for (BlockId block = range.blocks.first; block < range.blocks.end; ++block) {
        if (HoldsAny(problem_.shape.model, {{block, block + 1}}, bucket.first_segment, bucket.end_segment))
          there_seconds[block.value()] = seconds;
      }
    }
  }

  // How much the first forward through all stages waits for parameters, by when those of each block are there.
  double LateSeconds(const std::vector<GroupsOfKind::Stage>& stages,
                     const std::vector<std::vector<double>>& there_seconds) const {
    double late_seconds = 0, alone_seconds = 0, seconds = 0;
    for (const auto& [g, r] : stages) {
      const StageGroup::Range& range = groups_[g].ranges[r];
      for (size_t b = 0; b < range.forward_seconds.size(); ++b) {
        seconds =
            std::max(seconds, there_seconds[g][range.blocks.first.value() + b]) + range.forward_seconds[b];
        alone_seconds += range.forward_seconds[b];
      }
      late_seconds = std::max(late_seconds, seconds - alone_seconds);
    }
    return late_seconds;
  }

  void SumGradients() {
    std::vector<SumInTurn> sums;
    for (const GroupBucket& bucket : buckets_) {
      double complete_seconds = 0;
      // Who is first answers for norms where nothing is shared.
      const int first = *std::min_element(bucket.holders.begin(), bucket.holders.end(), [&](int a, int b) {
        return groups_[a].first_unit < groups_[b].first_unit;
      });
      for (const int g : bucket.holders) {
        CountNorm(bucket, groups_[g], g == first, ends_[g]);
        complete_seconds = std::max(complete_seconds,
                                    groups_[g].CompleteSeconds(problem_.shape.model, bucket.first_segment));
      }
      if (bucket.members < 2) continue;
      sums.push_back(SumOf(bucket, (shards_optimizer_ ? 0.5 : 1) * problem_.wire_bytes_per_element,
                           bucket.sum_seconds, complete_seconds));
    }
    Run(sums);
    for (const SumInTurn& sum : sums) {
      for (const int g : sum.holders) {
        ends_[g].sums = true;
        ends_[g].free_seconds = std::max(ends_[g].free_seconds, sum.end_seconds);
      }
    }
  }

  // What a holder does for the norm of a bucket.
  void CountNorm(const GroupBucket& bucket, const StageGroup& group, bool is_first, End& end) const {
    const double of_weights = group.unit->optimizer_weight / bucket.all_weights;
    if (shards_optimizer_) end.own_part = std::min(end.own_part, of_weights);
    const double counted = shards_optimizer_ ? of_weights : is_first ? 1 : 0;
    end.norm_seconds +=
        counted * static_cast<double>(bucket.elements / group.degree()) * group.norm_seconds_per_parameter;
  }

  // A sum of a bucket, or one of its halves, which sends half as many bytes.
  SumInTurn SumOf(const GroupBucket& bucket, double bytes_per_element, double work_seconds,
                  double ready_seconds) const {
    return {bucket.holders, ready_seconds, work_seconds,
            places_.PartsOfSum(bucket.holders, bytes_per_element * static_cast<double>(bucket.elements),
                               work_seconds)};
  }

  void Run(std::vector<SumInTurn>& sums) const {
    RunInTurn(static_cast<int>(groups_.size()), places_.count(), sums);
  }

  double EndSeconds() const {
    double reduced_seconds = 0, update_seconds = 0;
    std::vector<int> devices;
    for (size_t g = 0; g < groups_.size(); ++g) {
      const StageGroup& group = groups_[g];
      const End& end = ends_[g];
      reduced_seconds = std::max(reduced_seconds, std::max(end.free_seconds, group.last_backward_seconds) +
                                                      group.NormSeconds(end.norm_seconds, end.sums));
      update_seconds = std::max(update_seconds, group.UpdateSeconds(end.own_part));
      devices.insert(devices.end(), group.devices.begin(), group.devices.end());
    }
    return reduced_seconds + ReduceScalarsSeconds(problem_, devices) + update_seconds;
  }

  const PlanningProblem& problem_;
  const bool shards_optimizer_;
  const std::vector<GroupBucket>& buckets_;
  const std::vector<GroupsOfKind> kinds_;
  std::vector<StageGroup> groups_;
  const AlikePlaces places_;
  std::vector<End> ends_;  // of each group
};

}  // namespace

double SecondsOfGroups(const PlanningProblem& problem, const SharedWays& ways, bool shards_optimizer,
                       const std::vector<GroupBucket>& buckets, StageGroups groups) {
  return StepOfGroups(problem, ways, shards_optimizer, buckets, std::move(groups)).Seconds();
}

}  // namespace medley
