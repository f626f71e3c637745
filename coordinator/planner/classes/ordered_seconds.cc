#include "coordinator/planner/classes/ordered_seconds.h"

#include <algorithm>
#include <cmath>

#include "absl/container/inlined_vector.h"

namespace medley {
namespace {

constexpr size_t kFewStages = 16;
using Stages = absl::InlinedVector<const OrderedStage*, kFewStages>;

OrderedStage PassesOf(StageTable& table, const StageForm& stage) {
  OrderedStage of;
  of.forward_seconds = table.ForwardSeconds(stage);
  of.weight_gradient_seconds = table.WeightGradientSeconds(stage);
  of.input_gradient_seconds = table.BackwardSeconds(stage) - of.weight_gradient_seconds;
  of.keeping = table.KeepingOf(stage);
  return of;
}

// From its first pass to its last one's end. `round_trip`: from a forward's end to its input gradient's begin.
double SpanOf(const OrderedStage& of, int turns, double round_trip, double kept) {
  const double backward = of.input_gradient_seconds + of.weight_gradient_seconds;
  const double forwards_first = std::max(0.0, round_trip - (kept - 1) * of.forward_seconds),
               backwards_last = std::max(0.0, round_trip - (kept - 1) * backward);
  // Where all can be kept, both may be one and the same waiting.
  const double idle =
      kept < turns ? forwards_first + backwards_last : std::max(forwards_first, backwards_last);
  const double span = turns * (of.forward_seconds + backward) + idle;
  if (of.keeping.limit_bytes <= 0) return span;
  const double byte_seconds =
      of.keeping.kept_bytes * (of.forward_seconds + round_trip + of.input_gradient_seconds) +
      of.keeping.deferred_bytes * of.weight_gradient_seconds;
  return std::max(span, turns * byte_seconds / of.keeping.limit_bytes);
}

double LeastSecondsOf(const StageTable& table, const RouteShape& shape, int micro_batches,
                      const Stages& stages) {
  absl::InlinedVector<double, kFewStages> messages(stages.size(), 0);  // to the next stage
  double round_trip = 0;
  for (size_t s = 0; s < stages.size(); ++s) {
    if (s + 1 < stages.size())
      messages[s] = table.LeastMessageSeconds(shape.stages[s].kind, shape.stages[s + 1].kind, shape.size);
    round_trip += stages[s]->forward_seconds + stages[s]->input_gradient_seconds + 2 * messages[s];
  }
  const OrderedStage& first = *stages.front();
  double seconds = round_trip + first.weight_gradient_seconds, before = 0, behind = 0;
  for (size_t s = 0; s < stages.size(); ++s) {
    const OrderedStage& own = *stages[s];
    const int units = shape.stages[s].units, turns = (micro_batches + units - 1) / units;
    const auto room_for = [&](double each) {
      return each > 0 ? std::clamp(std::floor(own.keeping.limit_bytes / each), 1.0, 1.0 * turns) : turns;
    };
    round_trip -= own.forward_seconds + own.input_gradient_seconds;
    const double begin = std::max(before, own.first_forward_seconds - own.forward_seconds),
                 end = begin + SpanOf(own, turns, round_trip, room_for(own.keeping.kept_bytes));
    seconds = std::max(seconds, end + own.after_seconds);
    if (s > 0) {
      const double put_off = room_for(own.keeping.deferred_bytes) * own.weight_gradient_seconds;
      seconds =
          std::max(seconds, end - put_off + behind + first.weight_gradient_seconds + first.after_seconds);
    }
    round_trip -= 2 * messages[s];
    before += own.forward_seconds + messages[s];
    behind += own.input_gradient_seconds + messages[s];
  }
  return seconds;
}

}  // namespace

double LeastOrderedSeconds(StageTable& table, const RouteShape& shape, int micro_batches,
                           const std::vector<double>& first_forward_seconds,
                           const std::vector<double>& after_seconds) {
  std::vector<OrderedStage> stages;
  for (size_t s = 0; s < shape.stages.size(); ++s) {
    stages.push_back(PassesOf(table, shape.stages[s]));
    stages.back().first_forward_seconds = first_forward_seconds[s];
    stages.back().after_seconds = after_seconds[s];
  }
  Stages of;
  for (const OrderedStage& stage : stages) of.push_back(&stage);
  return LeastSecondsOf(table, shape, micro_batches, of);
}

double LeastOrderedSeconds(StageTable& table, SumsOfClasses& sums_of_classes, const SumModel& sums,
                           const ClassedPlan& plan) {
  const RouteShape& first = plan.routes[0].shape;
  int most_micro_batches = 0;
  bool alike = true;
  for (const ShapedRoutes& of : plan.routes) {
    most_micro_batches = std::max(most_micro_batches, of.micro_batches);
    alike = alike && SameShape(of.shape, first);
  }
  if (alike)
    return OrderedReplicas(table, sums_of_classes, plan.replicas()).LeastSeconds(first, most_micro_batches);
  double longest_seconds = 0, seconds = 0;
  for (const ShapedRoutes& of : plan.routes)
    longest_seconds = std::max(longest_seconds, sums.LongestStreamSeconds(table, of.shape));
  for (const ShapedRoutes& of : plan.routes) {
    seconds = std::max(seconds, LeastOrderedSeconds(table, of.shape, of.micro_batches,
                                                    sums.FirstForwardSeconds(table, of.shape),
                                                    sums.AfterSeconds(table, of.shape, longest_seconds)));
  }
  return seconds;
}

double OrderedReplicas::LeastSeconds(const RouteShape& shape, int micro_batches) {
  Stages stages;
  for (const StageForm& stage : shape.stages) stages.push_back(&StageOf(stage));
  return LeastSecondsOf(table_, shape, micro_batches, stages);
}

// What it does to need less memory follows from the rest.
const OrderedStage& OrderedReplicas::StageOf(const StageForm& stage) {
  const auto [place, is_new] =
      known_.try_emplace({stage.kind, stage.size, stage.layers, stage.first, stage.from_end, stage.units});
  OrderedStage& of = place->second;
  if (!is_new) return of;
  of = PassesOf(table_, stage);
  const StageKind& kind = table_.kinds()[stage.kind];
  const SumModel& sums = sums_.Of(kind.device_class, replicas_ * stage.units, kind.degree);
  const RouteShape alone{stage.size, {stage}};
  of.first_forward_seconds = sums.FirstForwardSeconds(table_, alone)[0];
  of.after_seconds = sums.AfterSeconds(table_, alone, 0)[0];
  return of;
}

}  // namespace medley
