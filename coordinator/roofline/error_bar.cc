#include "coordinator/roofline/error_bar.h"

#include <algorithm>
#include <cmath>

#include "runtime/base/quantile.h"

namespace medley {
namespace {

constexpr double kUsual = 2.0 / 3, kWide = 0.9;
// So many errors make up a bar by themselves.
constexpr size_t kEnough = 10;

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

std::vector<double> ErrorsThatTell(const std::vector<LiveError>& live,
                                   const std::set<std::string>& device_kinds) {
  std::vector<double> errors;
  for (const LiveError& one : live) {
    if (one.device_kinds == device_kinds) errors.push_back(one.error);
  }
  for (auto one = live.rbegin(); one != live.rend() && errors.size() < kEnough; ++one) {
    if (one->device_kinds == device_kinds) continue;
    const bool has_one = std::any_of(one->device_kinds.begin(), one->device_kinds.end(),
                                     [&](const std::string& kind) { return device_kinds.contains(kind); });
    if (has_one || one->device_kinds.empty()) errors.push_back(one->error);
  }
  return errors;
}

ErrorBar ErrorBarOf(std::vector<double> errors, const ErrorBar& before) {
  // Those that make up ten lie where `before` says.
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
