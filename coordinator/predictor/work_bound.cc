#include "coordinator/predictor/work_bound.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <set>

namespace medley {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// Of one sequence through one block of each kind.
struct BlockSeconds {
  double layer = kNever, head = kNever, embedding = kNever;
  auto operator<=>(const BlockSeconds&) const = default;
};

// At the size of micro-batches that is the best for each; the parts that were timed are so large.
void TakeBest(const PlanningProblem& problem, const std::vector<BlockTimes>& times, double of_layer,
              double of_vocabulary, BlockSeconds& best) {
  for (size_t size = 0; size < times.size(); ++size) {
    const int sequences = problem.micro_batch_sizes[size];
    if (!DividesBatch(problem, sequences)) continue;
    best.layer = std::min(best.layer, times[size].layer.Seconds() / sequences / of_layer);
    best.head = std::min(best.head, times[size].head.Seconds() / sequences / of_vocabulary);
    best.embedding = std::min(best.embedding, times[size].embedding.Seconds() / sequences / of_vocabulary);
  }
}

// Likewise of layers whose micro-batches units of several devices cut into parts, each of which takes a forward and an input gradient of
// its own, and all together one gradient of the weights (TimesInParts). Parts may have sizes that do not divide the batch.
void TakeBestInParts(const PlanningProblem& problem, const std::vector<BlockTimes>& times, double of_layer,
                     BlockSeconds& best) {
  int largest = 0;
  for (const int sequences : problem.micro_batch_sizes)
    if (DividesBatch(problem, sequences)) largest = sequences;
  double of_part = kNever, of_weights = kNever;
  for (size_t size = 0; size < times.size(); ++size) {
    const PassTimes& layer = times[size].layer;
    const int sequences = problem.micro_batch_sizes[size];
    if (sequences < largest) {
      of_part = std::min(of_part,
                         (layer.Seconds() + layer.split_seconds - layer.weight_gradient_seconds) / sequences);
    }
    if (size > 0 && DividesBatch(problem, sequences))
      of_weights = std::min(of_weights, layer.weight_gradient_seconds / sequences);
  }
  best.layer = std::min(best.layer, (of_part + of_weights) / of_layer);
}

BlockSeconds BestOf(const PlanningProblem& problem, const DeviceCost& device) {
  BlockSeconds best;
  TakeBest(problem, device.times, 1, 1, best);
  for (const ShareCost& cost : device.shares) {
    const auto part = [](int64_t size, int64_t of) {
      return static_cast<double>(size) / static_cast<double>(of);
    };
    const double of_layer = part(cost.share.feed_forward.size(), problem.shape.model.feed_forward);
    TakeBest(problem, cost.times, of_layer,
             part(cost.share.vocabulary.size(), problem.shape.model.vocabulary), best);
    TakeBestInParts(problem, cost.times, of_layer, best);
  }
  return best;
}

double Earned(double price, double seconds) { return price > 0 ? price / seconds : 0; }

// For which a device does a layer as gladly.
double IndifferentPrice(double seconds, double of_layer) {
  return of_layer > 0 && seconds < kNever && of_layer < kNever ? seconds / of_layer : 0;
}

double OneWay(const PassTimes& times) {
  return times.forward_seconds + std::max(0.0, times.backward_seconds - times.weight_gradient_seconds);
}

// Of one micro-batch, through all blocks and back.
double WaySeconds(const PlanningProblem& problem) {
  BlockSeconds least;
  const auto take = [&](const std::vector<BlockTimes>& all) {
    for (const BlockTimes& times : all) {
      least.layer = std::min(least.layer, OneWay(times.layer));
      least.head = std::min(least.head, OneWay(times.head));
      least.embedding = std::min(least.embedding, OneWay(times.embedding));
    }
  };
  for (const DeviceCost& device : problem.devices) {
    take(device.times);
    for (const ShareCost& cost : device.shares) take(cost.times);
  }
  const double seconds = problem.shape.model.layers * least.layer + least.head + least.embedding;
  return seconds < kNever ? seconds : 0;
}

}  // namespace

double WorkSeconds(const PlanningProblem& problem) {
  std::map<BlockSeconds, double> devices;  // that are as fast: how many
  std::set<double> head_prices = {0}, embedding_prices = {0};
  for (const DeviceCost& device : problem.devices) {
    const BlockSeconds best = BestOf(problem, device);
    ++devices[best];
    head_prices.insert(IndifferentPrice(best.head, best.layer));
    embedding_prices.insert(IndifferentPrice(best.embedding, best.layer));
  }
  double most_seconds = WaySeconds(problem);
  for (const double of_head : head_prices) {
    for (const double of_embedding : embedding_prices) {
      double earned_per_second = 0;
      for (const auto& [seconds, count] : devices) {
        earned_per_second += count * std::max({Earned(1, seconds.layer), Earned(of_head, seconds.head),
                                               Earned(of_embedding, seconds.embedding)});
      }
      const double wages =
          problem.shape.global_batch_sequences * (problem.shape.model.layers + of_head + of_embedding);
      most_seconds = std::max(most_seconds, wages / earned_per_second);
    }
  }
  return most_seconds;
}

}  // namespace medley
