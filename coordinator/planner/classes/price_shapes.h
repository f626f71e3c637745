#pragma once
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "coordinator/planner/classes/route_shape.h"

namespace medley {

// The cheapest route at given prices of devices, by a dynamic programme over its stages from the last to the first.
// What a route does by a time falls with its slowest stage, which is limited here, and with the sum of what a
// micro-batch takes on its way; the latter adds up stage by stage, as do the prices of the devices.
class ShapePricing {
 public:
  // All of routes with micro-batches of one size and at most so many stages.
  ShapePricing(StageTable& table, int size, int most_stages);

  struct Question {
    double most_pass_seconds = 0;  // of a stage: forward and backward of one micro-batch
    // Of a stage, less so large a part of the forwards that it may run ahead of its first backward, one for each stage
    // behind it.
    double most_period_seconds = std::numeric_limits<double>::infinity();
    double ahead_part = 0;
    double most_cost = std::numeric_limits<double>::infinity();  // what costs as much is not asked for
    double price_of_second =
        0;  // of the way of a micro-batch (StageTimes::WaySeconds) with the messages of all stages
    // How many of them follow each other, and how many passes of the first stage.
    int ways = 1, first_passes = 0;
    std::vector<double> price;      // of a device of each class
    std::vector<int> most_devices;  // of each class
    int least_stages = 1, most_stages = std::numeric_limits<int>::max();
    // What the sums of a stage take that follow its backwards (SumSeconds); empty: nothing. What those of the first stage
    // take longer than its backward is on the way. Where parameters are gathered before its forwards, which takes
    // `gathered_over_summed` times as long, so is what that takes longer than a forward.
    absl::Span<const double> sum_seconds;
    double gathered_over_summed = 0;
    // The layers before which stages may begin, ascending, and behind them the number of layers. Empty: any.
    absl::Span<const int> cuts;
    // Of each class, the layer before which none of its stages may begin. Empty: any may begin with any.
    absl::Span<const int> least_begin;
  };
  struct Answer {
    RouteShape shape;
    double cost = 0;  // devices and seconds
  };
  // None: no route has stages as short as that, fits the memory and costs less than that.
  std::optional<Answer> Best(const Question& question);

  // The least seconds of the way, as the question prices it, of routes whose devices cost at most that; infinite: there are none
  // that take less than `most_seconds`. Exact, where prices of seconds make up one route of two, but for few stages only:
  // it keeps all ways that are not both dearer and longer than another one.
  double LeastSeconds(const Question& question, double most_price, double most_seconds);

  // Every time that a stage may take, ascending, each at least `ratio` times the one before; of those nearer
  // together the longest.
  std::vector<double> PassTimes(double ratio) const;

  int size() const { return size_; }
  int most_stages() const { return most_stages_; }
  int layers() const { return layers_; }
  const StageTable& table() const { return table_; }
  // Of a stage; infinite if it does not fit, as with any more layers.
  double PassSeconds(int kind, int from_end, int layers, bool first) const {
    return pass_seconds_[At(kind, from_end, layers, first)];
  }
  // Forwards of the stages behind one, of which it may run ahead.
  double AheadSeconds(int kind, int from_end, int layers, bool first) const {
    return (from_end - 1) * forward_seconds_[At(kind, from_end, layers, first)];
  }
  StageForm Form(int kind, int from_end, int layers, bool first) const;
  // For Question::sum_seconds; and where those of a stage are.
  std::vector<double> SumSeconds(const std::function<double(const StageForm&)>& seconds_of) const;
  size_t SumsAt(int kind, int from_end, int layers, bool first) const {
    return ((static_cast<size_t>(kind) * 2 + (from_end == 1 ? 1 : 0)) * 2 + (first ? 1 : 0)) * (layers_ + 1) +
           layers;
  }

 private:
  void FindPrices(const Question& question);
  // Whether a stage of a kind that is not the last one may have so many layers, and what they take of the way at least.
  bool MayHave(const Question& question, int kind, int layers) const {
    const int from_end = std::min(2, most_stages_);
    return std::min(PassSeconds(kind, from_end, layers, /*first=*/false),
                    PassSeconds(kind, from_end, layers, /*first=*/true)) <= question.most_pass_seconds;
  }
  double LeastWaySeconds(int kind, int layers) const {
    const int from_end = std::min(2, most_stages_);
    return std::min(way_seconds_[At(kind, from_end, layers, /*first=*/false)],
                    way_seconds_[At(kind, from_end, layers, /*first=*/true)]);
  }
  // No layer costs less, with its part of its stage's devices; by prices_.
  double LeastLayerCost(const Question& question) const;
  // Of a stage, with its devices; infinite if the question does not allow it.
  double StageCost(const Question& question, int kind, int from_end, int layers, bool first) const;
  int LeastBegin(const Question& question, int kind) const {
    return question.least_begin.empty() ? 0 : question.least_begin[table_.kinds()[kind].device_class];
  }
  // Of a stage's passes, and of what only the first one has.
  double StageSeconds(const Question& question, int kind, int from_end, int layers, bool first) const;
  // Of what a micro-batch and its gradient take between stages.
  double MessageCost(const Question& question, int kind, int next) const {
    return question.price_of_second * MessageSeconds(question, kind, next);
  }
  double MessageSeconds(const Question& question, int kind, int next) const {
    return question.ways * message_seconds_[static_cast<size_t>(kind) * kinds_ + next];
  }
  size_t At(int kind, int from_end, int layers, bool first) const {
    return ((static_cast<size_t>(kind) * most_stages_ + from_end - 1) * 2 + (first ? 1 : 0)) * (layers_ + 1) +
           layers;
  }

  const StageTable& table_;
  const int size_, most_stages_, layers_, kinds_;
  std::vector<std::optional<UnitSaving>> savings_;                    // none: it does not fit
  std::vector<double> pass_seconds_, forward_seconds_, way_seconds_;  // at the same places
  std::vector<double> pass_times_;                                    // those that there are, ascending
  std::vector<double>
      message_seconds_;  // [kind][next kind]: there with an activation, and back with its gradient
  // Of the answer that is being worked out, by stages from the end: [kind][first layer], the cheapest rest that begins
  // so, and behind a stage of a kind.
  std::vector<double> here_, behind_;
  std::vector<double> prices_;      // by kind
  std::vector<double> stage_cost_;  // by layers
  std::vector<int> any_;            // every cut
  std::vector<int> some_;           // kinds with which a rest begins
  // Likewise, of LeastSeconds.
  struct PricedWay {
    double price = 0, seconds = 0;
  };
  static void KeepBest(std::vector<PricedWay>& ways);
  std::vector<std::vector<PricedWay>> ways_here_, ways_behind_;
};

// One for each size of micro-batches that divides the batch.
std::vector<ShapePricing> PricingsOf(StageTable& table, int most_stages);

}  // namespace medley
