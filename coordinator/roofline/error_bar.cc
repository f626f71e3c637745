#include "coordinator/roofline/error_bar.h"

#include <algorithm>
#include <cmath>

#include "runtime/base/quantile.h"

namespace medley {
namespace {

constexpr double kUsual = 2.0 / 3, kWide = 0.9;

}  // namespace

ErrorBar LearntErrorBar(PredictionBasis basis) {
  switch (basis) {
    case PredictionBasis::kMeasuredLayers:
      return {0.11, 0.14};
    case PredictionBasis::kOtherShapes:
      return {0.06, 0.13};
    case PredictionBasis::kOtherKinds:
      break;
  }
  return {0.33, 0.56};
}

ErrorBar ErrorBarOf(std::vector<double> errors, const ErrorBar& before) {
  // Those that make up ten lie where `before` says.
  constexpr size_t kEnough = 10;
  for (double& error : errors) error = std::abs(error);
  const size_t missing = errors.size() < kEnough ? kEnough - errors.size() : 0;
  for (size_t i = 0; i < missing; ++i) {
    const double share = (static_cast<double>(i) + 0.5) / static_cast<double>(missing);
    errors.push_back(share <= kUsual
                         ? before.usual * share / kUsual
                         : before.usual + (before.wide - before.usual) * (share - kUsual) / (kWide - kUsual));
  }
  std::sort(errors.begin(), errors.end());
  return {Quantile(errors, kUsual), Quantile(errors, kWide)};
}

}  // namespace medley
