#include "coordinator/planner/classes/sum_model.h"

#include <algorithm>
#include <cmath>

#include "coordinator/predictor/group_sums.h"
#include "runtime/ir/model/parameters.h"
#include "runtime/ir/program/program.h"

namespace medley {
namespace {

constexpr int kMostSampled = 16;  // the others are extrapolated

// Of each class as many as its part of all devices is, each on another host as long as there are some.
std::vector<int> Sample(const std::vector<DeviceClass>& classes, int count) {
  int all = 0;
  for (const DeviceClass& of : classes) all += of.devices;
  std::vector<int> sample;
  for (const DeviceClass& of : classes) {
    const int wanted = std::clamp<int>(
        static_cast<int>(std::lround(static_cast<double>(count) * of.devices / all)), 1, of.devices);
    int taken = 0;
    for (size_t place = 0; taken < wanted && place < static_cast<size_t>(of.most_on_host); ++place) {
      for (const std::vector<int>& host : of.hosts) {
        if (taken == wanted) break;
        if (place >= host.size()) continue;
        sample.push_back(host[place]);
        ++taken;
      }
    }
  }
  return sample;
}

// Of a sum: the first half of a ring follows backwards where the state is shared, the other one gathers parameters.
double SummedPart(const StageTable& table) { return table.optimizer_share() < 1 ? 0.5 : 1; }

// The tied embedding counts twice in routes of one stage: both ends of all longer routes are in its sum.
int64_t SummedParameters(const StageTable& table, const StageForm& stage) {
  return table.Parameters(stage) + (stage.first && stage.from_end == 1 ? table.TiedParameters() : 0);
}

}  // namespace

SumModel::SumModel(const PlanningProblem& problem, const std::vector<DeviceClass>& classes, int replicas) {
  const std::vector<std::pair<SegmentId, SegmentId>> buckets =
      CutIntoBuckets(problem.shape.model, 0, SegmentCount(problem.shape.model));
  for (const auto& [first, end] : buckets) {
    int64_t elements = 0;
    for (SegmentId s = first; s < end; ++s) elements += SegmentElements(problem.shape.model, s);
    bucket_elements_ = std::max(bucket_elements_, elements);
  }
  if (replicas < 2) return;
  GroupSums sums(problem, Sample(classes, replicas), kMostSampled);
  for (int64_t elements = 1 << 10; elements < int64_t{1} << 32; elements *= 8) {
    by_elements_.points.push_back({static_cast<double>(elements), sums.Seconds(elements)});
  }
}

double SumModel::Seconds(int64_t elements) const {
  return by_elements_.Seconds(static_cast<double>(elements));
}

double SumModel::BucketSeconds(const StageTable& table, const StageForm& stage) const {
  const int degree = std::min(table.kinds()[stage.kind].degree, least_degree_);
  return Seconds(std::min(SummedParameters(table, stage), bucket_elements_) / degree);
}

// Bucket by bucket, each of which takes the rounds of a sum.
double SumModel::StreamSeconds(const StageTable& table, const StageForm& stage) const {
  const double buckets =
      static_cast<double>(SummedParameters(table, stage)) / static_cast<double>(bucket_elements_);
  return std::max(1.0, buckets) * BucketSeconds(table, stage);
}

std::vector<double> SumModel::AfterSeconds(const StageTable& table, const RouteShape& shape,
                                           double longest_seconds) const {
  const double summed = SummedPart(table);
  double backward_seconds = 0;
  for (const StageForm& stage : shape.stages) backward_seconds += table.BackwardSeconds(stage);
  std::vector<double> after;
  for (const StageForm& stage : shape.stages) {
    const StageKind& kind = table.kinds()[stage.kind];
    double exposed = std::max(summed * BucketSeconds(table, stage),
                              summed * StreamSeconds(table, stage) - table.BackwardSeconds(stage));
    if (stage.first) exposed = std::max(exposed, summed * longest_seconds - backward_seconds);
    after.push_back(exposed +
                    static_cast<double>(table.Parameters(stage)) * kind.cost.norm_seconds_per_parameter *
                        table.optimizer_share() +
                    table.UpdateSeconds(stage));
  }
  return after;
}

std::vector<double> SumModel::FirstForwardSeconds(const StageTable& table, const RouteShape& shape) const {
  const double gathered = 1 - SummedPart(table);
  std::vector<double> seconds;
  for (const StageForm& stage : shape.stages) {
    const double bucket = gathered * BucketSeconds(table, stage),
                 stream = gathered * StreamSeconds(table, stage);
    const double forward = table.ForwardSeconds(stage);
    // All is computed behind the first slice, or the last slice is when it has come.
    seconds.push_back(bucket > 0 ? std::max(bucket + forward, stream + forward * bucket / stream) : 0);
  }
  return seconds;
}

}  // namespace medley
