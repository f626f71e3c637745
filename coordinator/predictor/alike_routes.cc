#include "coordinator/predictor/alike_routes.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/predictor/communication_time.h"
#include "coordinator/predictor/group_sums.h"
#include "coordinator/predictor/library_sums.h"
#include "coordinator/predictor/reductions.h"
#include "coordinator/predictor/routes_alone.h"
#include "coordinator/predictor/step_simulator.h"
#include "coordinator/predictor/sums_in_turn.h"
#include "runtime/base/status_macros.h"
#include "runtime/ir/model/model_share.h"
#include "runtime/ir/model/parameters.h"
#include "runtime/ir/plan/alike_ranks.h"
#include "runtime/ir/plan/part_of_plan.h"
#include "runtime/ir/program/holder_runs.h"
#include "runtime/ir/program/program.h"

namespace medley {
namespace {

// A range of blocks of a unit, in the last micro-batch that passes it.
struct GroupRange {
  BlockRange blocks;
  double last_backward_seconds = 0;
  std::vector<double> backward_before_seconds = {0};  // of the blocks before each of them
  std::vector<double> forward_seconds;                // of one micro-batch, of each block
};

// A unit of all sets of routes of one kind.
struct StageGroup {
  const Unit* unit = nullptr;      // of the first set
  std::vector<int> devices;        // the first rank's of each set's unit
  std::vector<BlockRange> blocks;  // of its ranges
  std::vector<GroupRange> ranges;  // parallel to these
  int sequences = 0;               // of its largest micro-batches
  int degree = 1;
  int ranks_on_host = 1;             // of each unit, beside the first one
  double last_backward_seconds = 0;  // of all ranges
  double norm_seconds_per_parameter = 0, update_seconds_per_parameter = 0;
  int64_t parameters = 0;          // of a rank
  bool is_of_first_route = false;  // which answers for norms where nothing is shared
  int optimizer_weight = 1;
  double own_part = 1;  // of the optimizer's state of what it holds, where that is shared
  // Of layers that live in host memory: how many there are, and what one's parameters take to the device and from it.
  int layers_on_host = 0;
  double fetch_seconds = 0, store_seconds = 0;

  bool sums = false;  // with others
  double free_seconds = 0, norm_seconds = 0;

  // Of what it counts of sums, layers are fetched once more.
  double NormSeconds() const {
    const bool counts = norm_seconds > 0 && sums;
    return std::max(norm_seconds, counts ? layers_on_host * fetch_seconds : 0.0);
  }
  // Parameters, gradients and the moments of its part come, and but for gradients they go, a layer behind another; the first
  // one comes before anything is updated, and the last one goes when all is.
  double UpdateSeconds() const {
    const double moments = 2 * own_part;
    const double updates = own_part * static_cast<double>(parameters) * update_seconds_per_parameter;
    if (layers_on_host == 0) return updates;
    const double fetched = layers_on_host * (2 + moments) * fetch_seconds,
                 stored = layers_on_host * (1 + moments) * store_seconds;
    return std::max({updates + (2 + moments) * fetch_seconds + (1 + moments) * store_seconds,
                     fetched + (1 + moments) * store_seconds, stored + (2 + moments) * fetch_seconds});
  }
};

// Of one kind of sets, from `first` on; and those that each of its routes passes, front to back, by their ranges.
struct GroupsOfKind {
  struct Stage {
    int group, range;
  };
  int first = 0, end = 0;
  std::vector<std::vector<Stage>> routes;
};

// Of gradients, which groups of stages hold.
struct Bucket {
  std::vector<int> holders;
  int members = 0;         // units among these
  double all_weights = 0;  // of these units
  SegmentId first_segment = 0, end_segment = 0;
  int64_t elements = 0;
  double sum_seconds = 0;
};

// Hosts, racks or sites that share ways as fast.
struct AlikePlaces {
  WayLevel level = WayLevel::kHost;
  double bytes_per_second = 0;  // of each way of one; 0: it is not known to share any
  std::vector<int> groups;      // of stages, that have devices at each
  int count = 0;
};

// Periods of a pipeline that differ by no larger a part are alike.
constexpr double kSettled = 1e-4;

class AlikeRoutes {
 public:
  AlikeRoutes(AlikeRoutePredictor& predictor, const Plan& plan)
      : predictor_(predictor), problem_(predictor.problem()), plan_(plan) {}

  absl::StatusOr<double> Run() {
    RETURN_IF_ERROR(FindKinds());
    for (const auto& [key, sets] : sets_of_kind_) RETURN_IF_ERROR(AddKind(key.first, sets));
    FindBuckets();
    FindPlaces();
    if (plan_.shards_optimizer) GatherParameters();
    SumGradients();
    return EndSeconds();
  }

 private:
  absl::Status FindKinds() {
    std::set<int> processors;
    std::vector<bool> is_known(plan_.units.size(), false);
    devices_of_unit_.resize(plan_.units.size());
    for (size_t r = 0; r < plan_.routes.size(); ++r) {
      for (const UnitId u : plan_.routes[r].units) {
        const Unit& unit = plan_.units[u];
        if (unit.lives_on_peers()) {
          return absl::InvalidArgumentError(
              absl::StrCat("routes[", r, "]: unit ", u.value(),
                           " has layers with its holders; such plans are predicted whole alone"));
        }
        if (ShareKeys(unit, problem_.shape.model)) {
          return absl::InvalidArgumentError(
              absl::StrCat("routes[", r, "]: unit ", u.value(),
                           " has ranks that share key-value heads; such plans are predicted whole alone"));
        }
        if (is_known[u.value()]) continue;
        is_known[u.value()] = true;
        for (const std::string& name : unit.devices) {
          const int d = predictor_.DeviceNamed(name);
          if (d < 0) {
            return absl::InvalidArgumentError(absl::StrCat("units[", u.value(), "].devices: \"", name,
                                                           "\" is not a device of the problem"));
          }
          if (!processors.insert(problem_.devices[d].processor).second) {
            return absl::InvalidArgumentError(
                absl::StrCat("routes[", r, "]: ", name, " shares its processor"));
          }
          devices_of_unit_[u.value()].push_back(d);
        }
      }
    }
    alone_.emplace(problem_, predictor_.ways(), plan_, devices_of_unit_);
    for (std::vector<int>& routes : RoutesThatMeet(plan_)) {
      const int micro_batches = plan_.routes[routes.front()].micro_batches;
      const std::string kind = absl::StrCat(predictor_.KindOf(plan_, routes), alone_->DescribeAtOnce(routes));
      sets_of_kind_[{kind, micro_batches}].push_back(std::move(routes));
    }
    return absl::OkStatus();
  }

  // Simulates one of the sets by itself.
  absl::Status AddKind(const std::string& key, const std::vector<std::vector<int>>& sets) {
    const Plan plan = PartOfPlan(plan_, sets.front());
    const std::vector<UnitId> first_set = UnitsOf(plan_, sets.front());
    const PlanningProblem alone = alone_->ProblemOf(sets.front());
    ASSIGN_OR_RETURN(const LastBackwardsOfUnits last_backwards, LastBackwards(key, alone, plan));
    const int first_group = static_cast<int>(groups_.size());
    groups_.resize(groups_.size() + plan.units.size());
    for (const std::vector<int>& set : sets) {
      const std::vector<UnitId> units = UnitsOf(plan_, set);
      for (size_t u = 0; u < units.size(); ++u)
        groups_[first_group + u].devices.push_back(devices_of_unit_[units[u].value()].front());
    }
    std::vector<std::vector<GroupsOfKind::Stage>>& routes =
        kinds_.emplace_back(GroupsOfKind{first_group, static_cast<int>(groups_.size()), {}}).routes;
    for (size_t r = 0; r < plan.routes.size(); ++r) {
      std::vector<GroupsOfKind::Stage>& stages = routes.emplace_back();
      BlockId at = 0;
      for (const UnitId u : plan.routes[r].units) {
        StageGroup& group = groups_[first_group + u.value()];
        const int range = ChunkFrom(plan.units[u], at);
        at = plan.units[u].chunks[range].end;
        stages.push_back({first_group + u.value(), range});
        group.is_of_first_route = group.is_of_first_route || sets.front()[r] == 0;
        group.sequences = std::max(group.sequences, plan.routes[r].micro_batch_sequences);
      }
    }
    for (size_t u = 0; u < plan.units.size(); ++u) {
      const Unit& unit = plan.units[u];
      StageGroup& group = groups_[first_group + u];
      group.blocks.assign(unit.chunks.begin(), unit.chunks.end());
      group.degree = static_cast<int>(unit.devices.size());
      group.unit = &plan_.units[first_set[u].value()];
      group.optimizer_weight = unit.optimizer_weight;
      const std::vector<int>& ranks = devices_of_unit_[first_set[u].value()];
      const int host = problem_.devices[ranks.front()].host;
      group.ranks_on_host =
          host < 0 ? 1 : static_cast<int>(std::count_if(ranks.begin(), ranks.end(), [&](int device) {
            return problem_.devices[device].host == host;
          }));
      const Rank rank = FirstRankOf(plan, static_cast<int>(u));
      for (const LastBackward& last : last_backwards[u])
        group.last_backward_seconds = std::max(group.last_backward_seconds, last.end_seconds);
      RETURN_IF_ERROR(AddCosts(plan, rank, alone, last_backwards[u], group));
    }
    return absl::OkStatus();
  }

  // Of each range of each unit of a set of routes. Of one route under 1F1B that passes units once, as many micro-batches more as there
  // are units take as long as as many before, some time after all stages are at work: the sooner, the less they wait for each other.
  absl::StatusOr<LastBackwardsOfUnits> LastBackwards(const std::string& key, const PlanningProblem& alone,
                                                     Plan plan) {
    const int units = static_cast<int>(plan.units.size()), micro_batches = plan.routes[0].micro_batches;
    const auto simulated = [&](int count) -> absl::StatusOr<LastBackwardsOfUnits> {
      LastBackwardsOfUnits& known = predictor_.LastBackwards(absl::StrCat(key, "#", count));
      if (!known.empty()) return known;
      plan.routes[0].micro_batches = count;
      StepSimulator simulator(alone);
      RETURN_IF_ERROR(simulator.Run(plan).status());
      for (int u = 0; u < units; ++u) {
        const Unit& unit = plan.units[u];
        const Rank first = FirstRankOf(plan, u);
        std::vector<LastBackward>& of_ranges = known.emplace_back();
        for (int chunk = 0; chunk < static_cast<int>(unit.chunks.size()); ++chunk) {
          of_ranges.push_back(simulator.LastBackwardOf(first, chunk));
          double& end_seconds = of_ranges.back().end_seconds;
          for (int member = 1; member < static_cast<int>(unit.devices.size()); ++member)
            end_seconds = std::max(end_seconds, simulator.LastBackwardOf(first + member, chunk).end_seconds);
        }
      }
      return known;
    };
    const bool settles = plan.routes.size() == 1 && plan.schedule == Schedule::kOneForwardOneBackward &&
                         PassesEachUnitOnce(plan);
    for (int count = 2 * units + 2; settles && count < micro_batches; count *= 2) {
      ASSIGN_OR_RETURN(LastBackwardsOfUnits last, simulated(count));
      ASSIGN_OR_RETURN(const LastBackwardsOfUnits before, simulated(count - units));
      ASSIGN_OR_RETURN(const LastBackwardsOfUnits long_before, simulated(count - 2 * units));
      bool settled = true;
      for (int u = 0; u < units; ++u) {
        double& end_seconds = last[u][0].end_seconds;
        const double period = end_seconds - before[u][0].end_seconds,
                     period_before = before[u][0].end_seconds - long_before[u][0].end_seconds;
        settled = settled && std::abs(period - period_before) <= kSettled * period;
        end_seconds += (micro_batches - count) * period / units;
      }
      if (settled) return last;
    }
    return simulated(micro_batches);
  }

  absl::Status AddCosts(const Plan& plan, Rank rank, const PlanningProblem& alone,
                        const std::vector<LastBackward>& last_backwards, StageGroup& group) const {
    const ModelConfig& model = problem_.shape.model;
    const ModelShare share = ShareOf(plan, rank, model);
    const DeviceCost& device = *FindDevice(alone, DeviceOf(plan, rank));
    const std::optional<RankCosts> costs = CostsOf(device, model, share);
    const auto size =
        std::find(alone.micro_batch_sizes.begin(), alone.micro_batch_sizes.end(), group.sequences);
    if (!costs || size == alone.micro_batch_sizes.end())
      return absl::InvalidArgumentError(absl::StrCat(device.name, " was not measured so"));
    const BlockTimes& times = costs->times[size - alone.micro_batch_sizes.begin()];
    const ModelConfig local = LocalModel(model, share);
    const Unit& unit = plan.units[PlaceOf(plan, rank).unit];
    if (unit.lives_on_host()) {
      const Bytes layer = SizeOf(Dtype::kF32) * SegmentElements(local, SegmentOfBlock(BlockOfLayer(0)));
      group.layers_on_host = LayersOf(unit, model);
      group.fetch_seconds = static_cast<double>(layer.value) / device.fetch_bytes_per_second;
      group.store_seconds = static_cast<double>(layer.value) / device.store_bytes_per_second;
    }
    for (size_t c = 0; c < group.blocks.size(); ++c) {
      const LastBackward& last = last_backwards[c];
      GroupRange range{.blocks = group.blocks[c], .last_backward_seconds = last.end_seconds};
      for (BlockId block = range.blocks.first; block < range.blocks.end; ++block) {
        const PassTimes& passes = TimesOf(times, model, block);
        range.forward_seconds.push_back(passes.forward_seconds);
        double seconds = last.of_weights_alone ? passes.weight_gradient_seconds : passes.backward_seconds;
        // Its parameters and gradients come before it.
        if (group.layers_on_host > 0 && model.is_layer(block))
          seconds = std::max(seconds, 2 * group.fetch_seconds);
        range.backward_before_seconds.push_back(range.backward_before_seconds.back() + seconds);
      }
      group.ranges.push_back(std::move(range));
    }
    for (const SegmentId segment : SegmentsOf(model, group.blocks))
      group.parameters += SegmentElements(local, segment);
    group.norm_seconds_per_parameter = costs->norm_seconds_per_parameter;
    group.update_seconds_per_parameter = costs->update_seconds_per_parameter;
    return absl::OkStatus();
  }

  // When the last backward of a group has gone through the segments from `segment` on.
  double CompleteSeconds(const StageGroup& group, SegmentId segment) const {
    const BlockId block = CompletedBy(problem_.shape.model, group.blocks, segment);
    const auto range = std::find_if(group.ranges.begin(), group.ranges.end(),
                                    [&](const GroupRange& of) { return block < of.blocks.end; });
    // What is summed in host memory is stored there first.
    return range->last_backward_seconds - range->backward_before_seconds[block - range->blocks.first] +
           group.store_seconds;
  }

  // As slices stand in the step programs.
  void FindBuckets() {
    const auto holders_of = [&](SegmentId segment) {
      std::vector<int> holders;
      for (size_t g = 0; g < groups_.size(); ++g) {
        if (HoldsSegment(problem_.shape.model, groups_[g].blocks, segment))
          holders.push_back(static_cast<int>(g));
      }
      return holders;
    };
    const auto runs = HolderRunsOf(FilledSegments(problem_.shape.model), holders_of);
    const auto is_summed = [&](const auto& run) { return Members(run.holders) > 1; };
    for (const int r : OrderOfSums(problem_.shape.model, runs, is_summed)) {
      // Layers that live elsewhere have slices of their own.
      const auto live_elsewhere = [&](SegmentId segment) {
        return std::any_of(runs[r].holders.begin(), runs[r].holders.end(), [&](int g) {
          return LivesElsewhere(problem_.shape.model, segment, *groups_[g].unit);
        });
      };
      for (SegmentId end = runs[r].end_segment, first = end; end > runs[r].first_segment; end = first) {
        const bool elsewhere = live_elsewhere(end - 1);
        while (first > runs[r].first_segment && live_elsewhere(first - 1) == elsewhere) first = first - 1;
        FindBuckets(runs[r].holders, first, end, elsewhere);
      }
    }
  }

  int Members(const std::vector<int>& holders) const {
    size_t members = 0;
    for (const int g : holders) members += groups_[g].devices.size();
    return static_cast<int>(members);
  }

  void FindBuckets(const std::vector<int>& holders, SegmentId first_segment, SegmentId end_segment,
                   bool live_elsewhere) {
    const int members = Members(holders);
    int finest = 1, least_degree = std::numeric_limits<int>::max(), at_once = least_degree,
        least_weight = least_degree;
    double all_weights = 0;
    bool on_hosts = false;
    std::vector<int> devices;
    for (const int g : holders) {
      on_hosts = on_hosts || SumsOnHosts(groups_[g].degree, live_elsewhere);
      finest = std::max(finest, groups_[g].degree);
      least_degree = std::min(least_degree, groups_[g].degree);
      at_once = std::min(at_once, groups_[g].ranks_on_host);
      least_weight = std::min(least_weight, groups_[g].optimizer_weight);
      all_weights += groups_[g].optimizer_weight * static_cast<double>(groups_[g].devices.size());
      devices.insert(devices.end(), groups_[g].devices.begin(), groups_[g].devices.end());
    }
    GroupSums& sums = predictor_.SumsOver(std::move(devices), at_once, on_hosts);
    for (const auto& [first, end] : CutIntoBuckets(problem_.shape.model, first_segment, end_segment)) {
      Bucket bucket{holders, members, all_weights, first, end, 0, 0};
      for (SegmentId s = first; s < end; ++s) bucket.elements += SegmentElements(problem_.shape.model, s);
      // A part for each rank of the units with the most; of others a rank has several, one after another.
      if (members > 1) {
        int64_t elements = bucket.elements / finest;
        if (plan_.shards_optimizer) elements = ElementsAsEven(elements, members, least_weight / all_weights);
        bucket.sum_seconds = sums.Seconds(elements) * (static_cast<double>(finest) / least_degree);
      }
      buckets_.push_back(std::move(bucket));
    }
    if (!plan_.shards_optimizer) return;
    for (const int g : holders)
      groups_[g].own_part = std::min(groups_[g].own_part, groups_[g].optimizer_weight / all_weights);
  }

  // The step begins with giving all holders what their owners updated in the one before. Each first forward waits for what
  // it uses; whatever a route's first micro-batch is late by on one of its stages, all of the route is late by at most.
  void GatherParameters() {
    const ModelConfig& model = problem_.shape.model;
    std::vector<std::vector<double>> there_seconds(groups_.size());  // of each group, of the model's blocks
    for (std::vector<double>& of_blocks : there_seconds) of_blocks.resize(model.blocks(), 0);
    std::vector<const Bucket*> gathered;
    std::vector<SumInTurn> gathers;
    for (auto bucket = buckets_.rbegin(); bucket != buckets_.rend(); ++bucket) {
      if (bucket->members < 2) continue;
      gathered.push_back(&*bucket);
      gathers.push_back(SumOf(*bucket, bucket->sum_seconds / 2, 0));  // the other half scatters sums
    }
    RunInTurn(static_cast<int>(groups_.size()), static_cast<int>(places_.size()), gathers);
    for (size_t i = 0; i < gathers.size(); ++i) {
      for (const int g : gathers[i].holders) {
        for (const BlockRange& blocks : groups_[g].blocks) {
          for (BlockId block = blocks.first; block < blocks.end; ++block) {
            if (HoldsAny(model, {{block, block + 1}}, gathered[i]->first_segment, gathered[i]->end_segment))
              there_seconds[g][block.value()] = gathers[i].end_seconds;
          }
        }
      }
    }
    for (const GroupsOfKind& kind : kinds_) {
      double late_seconds = 0;
      for (const std::vector<GroupsOfKind::Stage>& stages : kind.routes)
        late_seconds = std::max(late_seconds, LateSeconds(stages, there_seconds));
      for (int g = kind.first; g < kind.end; ++g) {
        groups_[g].last_backward_seconds += late_seconds;
        for (GroupRange& range : groups_[g].ranges) range.last_backward_seconds += late_seconds;
      }
    }
  }

  // How much the first forward through all stages waits for parameters, by when those of each block are there.
  double LateSeconds(const std::vector<GroupsOfKind::Stage>& stages,
                     const std::vector<std::vector<double>>& there_seconds) const {
    double late_seconds = 0, alone_seconds = 0, seconds = 0;
    for (const auto& [g, r] : stages) {
      const GroupRange& range = groups_[g].ranges[r];
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
    for (const Bucket& bucket : buckets_) {
      double start = 0;
      for (const int g : bucket.holders) {
        StageGroup& group = groups_[g];
        const double counted = plan_.shards_optimizer    ? group.optimizer_weight / bucket.all_weights
                               : group.is_of_first_route ? 1
                                                         : 0;
        group.norm_seconds +=
            counted * static_cast<double>(bucket.elements / group.degree) * group.norm_seconds_per_parameter;
        start = std::max(start, CompleteSeconds(group, bucket.first_segment));
      }
      const double part = plan_.shards_optimizer ? 0.5 : 1;  // the other half gathers parameters
      if (bucket.members > 1) sums.push_back(SumOf(bucket, part * bucket.sum_seconds, start));
    }
    RunInTurn(static_cast<int>(groups_.size()), static_cast<int>(places_.size()), sums);
    for (const SumInTurn& sum : sums) {
      for (const int g : sum.holders) {
        groups_[g].sums = true;
        groups_[g].free_seconds = std::max(groups_[g].free_seconds, sum.end_seconds);
      }
    }
  }

  // A sum of a bucket, or a part of one.
  SumInTurn SumOf(const Bucket& bucket, double work_seconds, double ready_seconds) const {
    SumInTurn sum{bucket.holders, ready_seconds, work_seconds};
    std::vector<char> holds(groups_.size(), 0);
    for (const int g : bucket.holders) holds[g] = 1;
    const auto held = [&](const AlikePlaces& places) {
      return std::any_of(places.groups.begin(), places.groups.end(), [&](int g) { return holds[g] != 0; });
    };
    // A part of a sum takes as much of the ways, for a shorter time.
    const double bytes = problem_.wire_bytes_per_element * static_cast<double>(bucket.elements);
    ByLevel<int> members;
    for (const AlikePlaces& of : places_) members[of.level] += held(of) ? of.count : 0;
    for (size_t p = 0; p < places_.size(); ++p) {
      const AlikePlaces& of = places_[p];
      // One group's sums follow each other.
      if (of.bytes_per_second <= 0 || of.groups.size() < 2 || !held(of)) continue;
      sum.way_parts.push_back(
          {static_cast<int>(p),
           SharedWays::PartOfSum(of.bytes_per_second, members[of.level], bytes, bucket.sum_seconds)});
    }
    return sum;
  }

  // Of hosts of the same groups of stages and cards one tells what their sums take from each other; and of racks and sites.
  void FindPlaces() {
    const SharedWays& ways = predictor_.ways();
    if (ways.count() == 0) return;
    for (const WayLevel level : kWayLevels) {
      if (level != WayLevel::kHost && ways.places(level) == 0) continue;
      std::map<int, std::pair<double, std::set<int>>> by_place;  // and groups
      for (size_t g = 0; g < groups_.size(); ++g) {
        for (const int d : groups_[g].devices) {
          const int way = ways.PlaceOf(level, d);
          // Hosts take part in sums whether their cards are known or not.
          auto& of_place = by_place[level == WayLevel::kHost ? HostOf(problem_, d) : way];
          of_place.first = way < 0 ? 0 : ways.BytesPerSecondOf(level, way);
          of_place.second.insert(static_cast<int>(g));
        }
      }
      std::map<std::pair<double, std::set<int>>, size_t> known;
      for (const auto& [number, of] : by_place) {
        const auto [place, inserted] = known.try_emplace(of, places_.size());
        if (inserted) places_.push_back({level, of.first, {of.second.begin(), of.second.end()}});
        ++places_[place->second].count;
      }
    }
  }

  double EndSeconds() const {
    double reduced = 0, update_seconds = 0;
    std::vector<int> devices;
    for (const StageGroup& group : groups_) {
      reduced =
          std::max(reduced, std::max(group.free_seconds, group.last_backward_seconds) + group.NormSeconds());
      update_seconds = std::max(update_seconds, group.UpdateSeconds());
      devices.insert(devices.end(), group.devices.begin(), group.devices.end());
    }
    return reduced + ReduceScalarsSeconds(problem_, devices) + update_seconds;
  }

  AlikeRoutePredictor& predictor_;
  const PlanningProblem& problem_;
  const Plan& plan_;
  std::vector<std::vector<int>> devices_of_unit_;
  std::map<std::pair<std::string, int>, std::vector<std::vector<int>>>
      sets_of_kind_;  // by that and the micro-batches
  std::optional<RoutesAlone> alone_;
  std::vector<StageGroup> groups_;
  std::vector<GroupsOfKind> kinds_;
  std::vector<Bucket> buckets_;  // in the order of their sums
  std::vector<AlikePlaces> places_;
};

}  // namespace

AlikeRoutePredictor::AlikeRoutePredictor(const PlanningProblem& problem)
    : problem_(problem),
      classes_(DeviceClassesOf(problem)),
      class_of_(problem.devices.size()),
      device_by_name_(DevicesByName(problem)),
      samples_(problem, class_of_),
      ways_(problem) {
  for (size_t c = 0; c < classes_.size(); ++c) {
    for (const std::vector<int>& host : classes_[c].hosts) {
      for (const int d : host) class_of_[d] = static_cast<int>(c);
    }
  }
}

std::string AlikeRoutePredictor::KindOf(const Plan& plan, const std::vector<int>& routes,
                                        bool by_hosts) const {
  std::string key = FormOf(plan, routes);
  std::map<int, int> hosts;
  for (const UnitId u : UnitsOf(plan, routes)) {
    for (const std::string& name : plan.units[u].devices) {
      const int d = DeviceNamed(name);
      absl::StrAppend(&key, ",", ClassOf(d));
      if (!by_hosts) continue;
      const int host = hosts.emplace(HostOf(problem_, d), static_cast<int>(hosts.size())).first->second;
      absl::StrAppend(&key, "h", host);
    }
  }
  return key;
}

int AlikeRoutePredictor::DeviceNamed(const std::string& name) const {
  const auto found = device_by_name_.find(name);
  return found == device_by_name_.end() ? -1 : found->second;
}

GroupSums& AlikeRoutePredictor::SumsOver(std::vector<int> devices, int at_once, bool on_hosts) {
  std::map<int, std::vector<int>> by_host;
  std::vector<std::vector<int>> make_up;
  std::sort(devices.begin(), devices.end());
  for (const int d : devices) {
    const int host = problem_.devices[d].host;
    if (host < 0) {
      make_up.push_back({class_of_[d]});
    } else {
      by_host[host].push_back(class_of_[d]);
    }
  }
  for (auto& [host, classes] : by_host) {
    std::sort(classes.begin(), classes.end());
    make_up.push_back(std::move(classes));
  }
  std::sort(make_up.begin(), make_up.end());
  std::unique_ptr<GroupSums>& sums = sums_[{at_once, on_hosts, std::move(make_up)}];
  if (sums == nullptr)
    sums = std::make_unique<GroupSums>(samples_, std::move(devices), kMostSummed, at_once, on_hosts);
  return *sums;
}

absl::StatusOr<double> AlikeRoutePredictor::Predict(const Plan& plan) {
  return AlikeRoutes(*this, plan).Run();
}

}  // namespace medley
