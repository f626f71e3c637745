#include "coordinator/planner/classes/sum_model.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "coordinator/predictor/library_sums.h"
#include "runtime/ir/model/parameters.h"
#include "runtime/ir/program/program.h"

namespace medley {
namespace {

// Of how many units of `degree` devices of each class a sample of so many has some: of each as its part of all devices is. Hosts
// that are filled in part would hold up the others, so whole ones are taken, and one more of the classes that miss most while they are too few: how
// many there are decides whether sums can be halved.
std::vector<int> UnitsOfSample(const std::vector<DeviceClass>& classes, int count, int degree) {
  int all = 0;
  for (const DeviceClass& of : classes) all += of.devices;
  std::vector<int> units;
  std::vector<std::pair<double, size_t>> missing;  // negative, for the most to be first
  int taken = 0;
  for (size_t c = 0; c < classes.size(); ++c) {
    const DeviceClass& of = classes[c];
    const int on_host = std::max(1, of.most_on_host / degree), most = std::max(1, of.devices / degree);
    const double part = static_cast<double>(count) * of.devices / all;
    int wanted = std::clamp<int>(static_cast<int>(std::lround(part)), 1, most);
    if (wanted > on_host) wanted -= wanted % on_host;
    units.push_back(wanted);
    taken += wanted;
    if (wanted + on_host <= most) missing.push_back({wanted - part, c});
  }
  std::sort(missing.begin(), missing.end());
  for (const auto& [_, c] : missing) {
    const int on_host = std::max(1, classes[c].most_on_host / degree);
    if (taken + on_host > count) continue;
    units[c] += on_host;
    taken += on_host;
  }
  return units;
}

// The first ranks of so many units of some degree, those of a host side by side, as units are placed that hold the same blocks
// (place_routes).
std::vector<int> Sample(const std::vector<DeviceClass>& classes, int count, int degree) {
  const std::vector<int> units = UnitsOfSample(classes, count, degree);
  std::vector<int> sample;
  for (size_t c = 0; c < classes.size(); ++c) {
    int wanted = units[c];
    for (const std::vector<int>& host : classes[c].hosts) {
      for (size_t first = 0; wanted > 0 && (first == 0 || first + degree <= host.size()); first += degree) {
        sample.push_back(host[first]);
        --wanted;
      }
    }
  }
  return sample;
}

bool SharesOptimizer(const StageTable& table) { return table.optimizer_share() < 1; }

// What follows backwards.
SumPart SummedPart(const StageTable& table) {
  return SharesOptimizer(table) ? SumPart::kScattered : SumPart::kWhole;
}

// The tied embedding counts twice in routes of one stage: both ends of all longer routes are in its sum.
int64_t SummedParameters(const StageTable& table, const StageForm& stage) {
  return table.Parameters(stage) + (stage.first && stage.from_end == 1 ? table.TiedParameters() : 0);
}

LinkModel SecondsByElements(AlikeRoutePredictor& predictor, const std::vector<DeviceClass>& classes,
                            int replicas, int at_once, bool live_elsewhere, SumPart part) {
  LinkModel model;
  GroupSums sums(predictor.samples(), Sample(classes, replicas, at_once), kMostSummed, at_once,
                 SumsOnHosts(at_once, live_elsewhere));
  for (int64_t elements = 1 << 10; elements < int64_t{1} << 32; elements *= 8)
    model.points.push_back({static_cast<double>(elements), sums.Seconds(elements, part)});
  return model;
}

}  // namespace

SumModel::SumModel(AlikeRoutePredictor& predictor, const std::vector<DeviceClass>& classes, int replicas,
                   int least_degree, std::vector<int> least_begin)
    : least_begin_(std::move(least_begin)), least_degree_(least_degree) {
  const PlanningProblem& problem = predictor.problem();
  const std::vector<std::pair<SegmentId, SegmentId>> buckets =
      CutIntoBuckets(problem.shape.model, 0, SegmentCount(problem.shape.model));
  for (const auto& [first, end] : buckets) {
    int64_t elements = 0;
    for (SegmentId s = first; s < end; ++s) elements += SegmentElements(problem.shape.model, s);
    bucket_elements_ = std::max(bucket_elements_, elements);
  }
  if (replicas < 2) return;
  std::vector<DeviceClass> others;
  for (size_t c = 0; c < least_begin_.size(); ++c) {
    if (least_begin_[c] == 0) {
      others.push_back(classes[c]);
    } else {
      later_layer_ = later_layer_ == 0 ? least_begin_[c] : std::min(later_layer_, least_begin_[c]);
    }
  }
  const bool is_measured = AnySumIsMeasured(problem);
  for (const bool live_elsewhere : {false, true}) {
    OfHome& of = of_homes_[live_elsewhere];
    if (live_elsewhere && (!is_measured || SumsOnHosts(least_degree_, false))) {
      of = of_homes_[false];
      break;
    }
    for (const SumPart part : {SumPart::kWhole, SumPart::kScattered, SumPart::kGathered}) {
      const auto over = [&](const std::vector<DeviceClass>& some) {
        return SecondsByElements(predictor, some, replicas, least_degree_, live_elsewhere, part);
      };
      OfPart& of_part = of[static_cast<size_t>(part)];
      of_part.by_elements = over(classes);
      if (later_layer_ > 0) of_part.without_later = over(others);
    }
  }
}

double SumModel::Seconds(int64_t elements) const {
  return of_homes_[false][static_cast<size_t>(SumPart::kWhole)].by_elements.Seconds(
      static_cast<double>(elements));
}

// Bucket by bucket, each of which takes the rounds of a sum.
SumModel::StageSums SumModel::SumsOf(const StageTable& table, const StageForm& stage, int begin,
                                     SumPart part) const {
  const int degree = std::min(table.kinds()[stage.kind].degree, least_degree_);
  const int64_t parameters = SummedParameters(table, stage);
  const double buckets =
      std::max(1.0, static_cast<double>(parameters) / static_cast<double>(bucket_elements_));
  const auto elements = static_cast<double>(std::min(parameters, bucket_elements_) / degree);
  const OfPart& of = of_homes_[stage.saving.window_layers > 0][static_cast<size_t>(part)];
  const double later = of.by_elements.Seconds(elements);
  if (begin >= later_layer_) return {later, buckets * later};
  const double before = of.without_later.Seconds(elements);
  const double before_part =
      std::min(1.0, static_cast<double>(later_layer_ - begin) / std::max(1, stage.layers));
  return {before, buckets * (before_part * before + (1 - before_part) * later)};
}

double SumModel::LongestStreamSeconds(const StageTable& table, const RouteShape& shape) const {
  double longest = 0;
  int begin = 0;
  for (const StageForm& stage : shape.stages) {
    longest = std::max(longest, SumsOf(table, stage, begin, SummedPart(table)).stream_seconds);
    begin += stage.layers;
  }
  return longest;
}

std::vector<double> SumModel::AfterSeconds(const StageTable& table, const RouteShape& shape,
                                           double longest_seconds) const {
  double backward_seconds = 0;
  for (const StageForm& stage : shape.stages) backward_seconds += table.BackwardSeconds(stage);
  std::vector<double> after;
  int begin = 0;
  for (const StageForm& stage : shape.stages) {
    const StageKind& kind = table.kinds()[stage.kind];
    const StageSums sums = SumsOf(table, stage, begin, SummedPart(table));
    begin += stage.layers;
    double exposed = std::max(sums.bucket_seconds, sums.stream_seconds - table.BackwardSeconds(stage));
    if (stage.first) exposed = std::max(exposed, longest_seconds - backward_seconds);
    after.push_back(exposed +
                    static_cast<double>(table.Parameters(stage)) * kind.cost.norm_seconds_per_parameter *
                        table.optimizer_share() +
                    table.UpdateSeconds(stage));
  }
  return after;
}

std::vector<double> SumModel::FirstForwardSeconds(const StageTable& table, const RouteShape& shape) const {
  if (!SharesOptimizer(table)) return std::vector<double>(shape.stages.size(), 0);
  std::vector<double> seconds;
  int begin = 0;
  for (const StageForm& stage : shape.stages) {
    const auto [bucket, stream] = SumsOf(table, stage, begin, SumPart::kGathered);
    begin += stage.layers;
    const double forward = table.ForwardSeconds(stage);
    // All is computed behind the first slice, or the last slice is when it has come.
    seconds.push_back(bucket > 0 ? std::max(bucket + forward, stream + forward * bucket / stream) : 0);
  }
  return seconds;
}

const SumModel& SumsOfClasses::Of(int device_class, int units, int degree) {
  const DeviceClass& of = classes_[device_class];
  const int members = std::min(std::max(1, of.devices / degree),
                               static_cast<int>(std::bit_ceil(static_cast<unsigned>(units))));
  const std::tuple key = {device_class, members, degree};
  const auto known = known_.find(key);
  if (known != known_.end()) return known->second;
  return known_.try_emplace(key, predictor_, std::vector{of}, members, degree).first->second;
}

}  // namespace medley
