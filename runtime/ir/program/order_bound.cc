#include "runtime/ir/program/order_bound.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace medley {
namespace {

// How many of what takes `each` there is room for, of `most`. What is not whole is rounded up a little.
double RoomFor(double limit, double each, int most) {
  return each <= 0 ? most : std::min<double>(most, std::floor(limit / each * (1 + 1e-9)));
}

// Of one stage of a route that has its unit for itself, seconds.
class StageBound {
 public:
  StageBound(const TimedRoute& route, int stage, double memory_limit)
      : route_(route), at_(route.stages[stage]), stage_(stage), limit_(memory_limit) {
    const int last = static_cast<int>(route.stages.size()) - 1;
    for (int s = stage; s < last; ++s) {
      const TimedStage& after = route.stages[s + 1];
      round_trip_ +=
          2 * route.stages[s].message_seconds + after.forward_seconds + after.input_gradient_seconds;
    }
  }

  // From its first pass to its last one's end.
  double Span() const { return at_.work_seconds() * route_.micro_batches + Idle(); }

  // From the first forward of stage `before` or of this one to the last weights' gradient of `before`.
  double SpanOf(int before) const {
    double around = route_.stages[before].weight_gradient_seconds;
    for (int s = before; s < stage_; ++s) {
      const TimedStage& other = route_.stages[s];
      around += other.forward_seconds + other.input_gradient_seconds + 2 * other.message_seconds;
    }
    return around + Span() - Behind() * at_.weight_gradient_seconds;
  }

  double Before() const {
    double seconds = 0;
    for (int s = 0; s < stage_; ++s)
      seconds += route_.stages[s].forward_seconds + route_.stages[s].message_seconds;
    return seconds;
  }

 private:
  double Kept() const { return RoomFor(limit_, at_.kept, route_.micro_batches); }
  // Weights' gradients after the last gradient of an input.
  double Behind() const { return RoomFor(limit_, at_.deferred, route_.micro_batches); }

  // Waiting for the first gradient; then, from the last forward's end, for its own.
  double Idle() const {
    const double forwards_first = std::max(0.0, round_trip_ - (Kept() - 1) * at_.forward_seconds);
    if (at_.deferred <= 0) return forwards_first;  // any number of weights' gradients may be left
    // The best that can be kept beside the last forward's own.
    const double room = limit_ * (1 + 1e-9) - at_.kept;
    double left =
        std::max((at_.input_gradient_seconds + at_.weight_gradient_seconds) / std::max(at_.kept, 1e-300),
                 at_.weight_gradient_seconds / at_.deferred) *
        room;
    if (at_.kept <= at_.deferred && at_.kept > 0) {
      left = std::min(left, (Kept() - 1) * (at_.input_gradient_seconds + at_.weight_gradient_seconds));
    }
    left = std::min(left,
                    (route_.micro_batches - 1) * (at_.input_gradient_seconds + at_.weight_gradient_seconds));
    const double behind_last = std::max(0.0, round_trip_ - left);
    // Where all forwards can be kept, both may be one and the same waiting.
    return Kept() < route_.micro_batches ? forwards_first + behind_last
                                         : std::max(forwards_first, behind_last);
  }

  const TimedRoute& route_;
  const TimedStage& at_;
  const int stage_;
  const double limit_;
  double round_trip_ = 0;  // from a forward's end to its input gradient's begin
};

// What lies before the first pass of each unit, and its work; and all that one micro-batch has to wait for.
double LeastMakespan(const TimedPipeline& pipeline) {
  std::vector<double> before(pipeline.units, std::numeric_limits<double>::infinity());
  double least = 0;
  for (const TimedRoute& route : pipeline.routes) {
    double way = 0, back = 0;
    for (const TimedStage& stage : route.stages) {
      before[stage.unit] = std::min(before[stage.unit], way);
      way += stage.forward_seconds + stage.message_seconds;
      back += stage.input_gradient_seconds + stage.message_seconds;
    }
    least = std::max(least, way + back + route.stages.front().weight_gradient_seconds);
  }
  const std::vector<double> work = WorkSeconds(pipeline);
  for (int u = 0; u < pipeline.units; ++u) {
    if (work[u] > 0) least = std::max(least, before[u] + work[u]);
  }
  return least;
}

}  // namespace

double LeastSeconds(const TimedPipeline& of_orders, const std::vector<double>& memory_limit, OrderGoal goal) {
  // As if apart gradients took no longer than whole ones: the input's is there no later than with either.
  TimedPipeline pipeline = of_orders;
  for (TimedRoute& route : pipeline.routes) {
    for (TimedStage& stage : route.stages)
      stage.weight_gradient_seconds -= std::exchange(stage.split_seconds, 0);
  }
  double least = LongestWorkSeconds(pipeline);
  std::vector<int> passed(pipeline.units, 0);
  for (const TimedRoute& route : pipeline.routes) {
    for (const TimedStage& stage : route.stages) ++passed[stage.unit];
  }
  if (std::any_of(passed.begin(), passed.end(), [](int times) { return times > 1; }))
    return goal == OrderGoal::kMakespan ? LeastMakespan(pipeline) : least;
  for (const TimedRoute& route : pipeline.routes) {
    for (int s = 0; s < static_cast<int>(route.stages.size()); ++s) {
      const StageBound bound(route, s, memory_limit[route.stages[s].unit]);
      least = std::max(least, bound.Span() + (goal == OrderGoal::kMakespan ? bound.Before() : 0));
      for (int before = 0; before < s; ++before) least = std::max(least, bound.SpanOf(before));
    }
  }
  return least;
}

}  // namespace medley
