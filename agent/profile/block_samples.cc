#include "agent/profile/block_samples.h"

#include <algorithm>

namespace medley {
namespace {

double OnLine(double x1, double y1, double x2, double y2, double x) {
  return y2 + std::max(0.0, (y2 - y1) / (x2 - x1)) * (x - x2);
}

}  // namespace

BlockRepetition& BlockRepetition::operator+=(const BlockRepetition& other) {
  forward += other.forward;
  backward += other.backward;
  inputs += other.inputs;
  weights += other.weights;
  return *this;
}

void BlockSamples::Add(const BlockRepetition& sum, double passes) {
  const auto mean = [&](const PassSample& of) {
    return PassSample{of.seconds / passes, of.waited_seconds / passes};
  };
  forward.push_back(mean(sum.forward));
  backward.push_back(mean(sum.backward));
  inputs.push_back(mean(sum.inputs));
  weights.push_back(mean(sum.weights));
}

MeasuredPass BlockSamples::Pass(double slowdown) const {
  const Middle f = MiddleOf(forward), b = MiddleOf(backward);
  // The spread of the whole repetition's larger part: a short pass beside a long one is of no account.
  const double spread =
      std::max(f.seconds >= 0.2 * b.seconds ? f.spread : 0, b.seconds >= 0.2 * f.seconds ? b.spread : 0);
  const double w = std::min(MiddleOf(weights).seconds, b.seconds);
  const double apart = MiddleOf(inputs).seconds + w;
  return {.forward_seconds = f.seconds * slowdown,
          .backward_seconds = b.seconds * slowdown,
          .weight_gradient_seconds = w * slowdown,
          .spread = spread,
          .split_seconds = std::clamp(apart - b.seconds, 0.0, w) * slowdown};
}

MeasuredPass Extrapolated(const std::vector<std::pair<int, MeasuredPass>>& measured, int size) {
  const auto& [last_size, last] = measured.back();
  const auto suggested = [&](double MeasuredPass::*field) {
    if (measured.size() == 1) return last.*field * size / last_size;
    const auto& [size_before, before] = measured[measured.size() - 2];
    return OnLine(size_before, before.*field, last_size, last.*field, size);
  };
  return {.forward_seconds = suggested(&MeasuredPass::forward_seconds),
          .backward_seconds = suggested(&MeasuredPass::backward_seconds),
          .weight_gradient_seconds = suggested(&MeasuredPass::weight_gradient_seconds),
          .spread = last.spread,
          .split_seconds = suggested(&MeasuredPass::split_seconds)};
}

}  // namespace medley
