#include "runtime/engine/align/alignment.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"

namespace medley {
namespace {

template <typename T>
const T& At(const std::array<T, kParties>& of, Party party) {
  return of[static_cast<int>(party)];
}

struct Sides {
  Party got, want;
};
Sides SidesOf(Pair pair) {
  switch (pair) {
    case Pair::kAToOracle:
      return {Party::kA, Party::kOracle};
    case Pair::kBToOracle:
      return {Party::kB, Party::kOracle};
    case Pair::kBToA:
      return {Party::kB, Party::kA};
  }
  return {Party::kA, Party::kOracle};
}

constexpr Pair kAllPairs[] = {Pair::kAToOracle, Pair::kBToOracle, Pair::kBToA};

// Empty, or why `got`'s outputs are not those of `want`.
std::string OutputsObjection(const CallResult& got, const CallResult& want) {
  if (got.outputs.size() != want.outputs.size()) return "another number of outputs than the reference";
  for (size_t i = 0; i < got.outputs.size(); ++i) {
    const CallResult::Output &g = got.outputs[i], &w = want.outputs[i];
    if (g.name != w.name || g.dtype != w.dtype || g.contents.size() != w.contents.size()) {
      return absl::StrCat("output ", g.name, " is of another name, dtype or size than the reference's ",
                          w.name);
    }
  }
  return "";
}

OutputComparison CompareOutput(OpKind kind, size_t output, const std::array<CallResult, kParties>& results,
                               double tolerance_a, double tolerance_b) {
  OutputComparison comparison{.name = results[0].outputs[output].name,
                              .tolerances = {tolerance_a, tolerance_b, tolerance_a + tolerance_b}};
  for (const Pair pair : kAllPairs) {
    const Sides sides = SidesOf(pair);
    const CallResult::Output& got = At(results, sides.got).outputs[output];
    const CallResult::Output& want = At(results, sides.want).outputs[output];
    const int p = static_cast<int>(pair);
    comparison.differences[p] =
        Compare({got.dtype, got.contents}, {want.dtype, want.contents}, comparison.tolerances[p]);
  }
  return comparison;
}

}  // namespace

bool CallComparison::parted(Pair pair) const {
  return std::any_of(outputs.begin(), outputs.end(),
                     [pair](const OutputComparison& output) { return output.parted(pair); });
}

bool CallComparison::aligned() const {
  return std::all_of(statuses.begin(), statuses.end(),
                     [](const absl::Status& status) { return status.ok(); }) &&
         std::none_of(std::begin(kAllPairs), std::end(kAllPairs), [this](Pair pair) { return parted(pair); });
}

const OutputComparison* CallComparison::worst(Pair pair) const {
  const int p = static_cast<int>(pair);
  const auto found = std::max_element(outputs.begin(), outputs.end(), [p](const auto& a, const auto& b) {
    return a.differences[p].worst_ratio < b.differences[p].worst_ratio;
  });
  return found == outputs.end() ? nullptr : &*found;
}

CallComparison CompareCall(const CapturedCall& call, const std::array<CallResult, kParties>& results,
                           Precision precision_a, Precision precision_b) {
  CallComparison comparison{.place = call.place, .kind = call.kind(), .shape = ShapeOf(call)};
  bool all_ran = true;
  for (const Party party : {Party::kA, Party::kB, Party::kOracle}) {
    absl::Status& status = comparison.statuses[static_cast<int>(party)];
    status = At(results, party).status;
    const bool oracle_ran = At(results, Party::kOracle).status.ok();
    if (status.ok() && oracle_ran) {
      const std::string objection = OutputsObjection(At(results, party), At(results, Party::kOracle));
      if (!objection.empty()) status = absl::InternalError(objection);
    }
    all_ran = all_ran && status.ok();
  }
  if (!all_ran) return comparison;
  // An op that knows one precision has the same arithmetic in every job.
  CapturedCall copy{.args = call.args, .ranges = call.ranges};
  const OpSlices operands = Operands(copy);
  const auto tolerance = [&](const std::string& output, Precision precision) {
    const auto operand =
        std::find_if(operands.begin(), operands.end(), [&](const OpSlice& o) { return o.name == output; });
    if (operand == operands.end()) return 0.0;  // of another op: nothing about it is right
    return ToleranceOf(operand->arithmetic, HasPrecision(call) ? precision : Precision::kF32) +
           RoundingOf(operand->arithmetic, operand->dtype);
  };
  for (size_t i = 0; i < results[0].outputs.size(); ++i) {
    const std::string& name = results[0].outputs[i].name;
    comparison.outputs.push_back(
        CompareOutput(call.kind(), i, results, tolerance(name, precision_a), tolerance(name, precision_b)));
  }
  return comparison;
}

absl::StatusOr<LossComparison> CompareLosses(std::vector<double> losses_a, std::vector<double> losses_b,
                                             Precision precision_a, Precision precision_b) {
  if (losses_a.size() != losses_b.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(losses_a.size(), " losses against ", losses_b.size(), ", must be as many"));
  }
  LossComparison comparison{
      .losses_a = std::move(losses_a),
      .losses_b = std::move(losses_b),
      .tolerance = std::max(LossToleranceOf(precision_a), LossToleranceOf(precision_b))};
  for (size_t i = 0; i < comparison.losses_a.size(); ++i) {
    const double a = comparison.losses_a[i], b = comparison.losses_b[i];
    const double scale = std::max(std::abs(a), std::abs(b));
    double relative = a == b ? 0 : std::abs(a - b) / scale;
    if (!std::isfinite(relative)) relative = kNotFinite;  // a loss that is no number is parted from any
    comparison.worst_relative = std::max(comparison.worst_relative, relative);
    if (relative > comparison.tolerance && comparison.first_parted_step == 0) {
      comparison.first_parted_step = static_cast<int>(i) + 1;
    }
  }
  return comparison;
}

void Alignment::Add(CallComparison comparison) {
  ++calls_;
  const auto [at, is_new] = by_shape_.try_emplace({comparison.kind, comparison.shape}, summaries_.size());
  if (is_new) summaries_.push_back({.kind = comparison.kind, .shape = comparison.shape});
  OpSummary& summary = summaries_[at->second];
  ++summary.calls;
  double worst_so_far = 0;
  for (const Difference& worst : summary.worst) worst_so_far = std::max(worst_so_far, worst.worst_ratio);
  for (const OutputComparison& output : comparison.outputs) {
    for (int p = 0; p < kPairs; ++p) {
      const Difference& difference = output.differences[p];
      if (difference.worst_ratio > worst_so_far || summary.worst_output.empty()) {
        worst_so_far = std::max(worst_so_far, difference.worst_ratio);
        summary.worst_output = output.name;
      }
      if (difference.worst_ratio >= summary.worst[p].worst_ratio) summary.worst[p] = difference;
    }
    const Difference& to_a = output.differences[static_cast<int>(Pair::kAToOracle)];
    const Difference& to_b = output.differences[static_cast<int>(Pair::kBToOracle)];
    summary.not_finite += to_a.got_not_finite + to_b.got_not_finite + to_a.want_not_finite;
    summary.lowest_cosine =
        std::min(summary.lowest_cosine, output.differences[static_cast<int>(Pair::kBToA)].cosine);
  }
  if (comparison.aligned()) return;
  ++parted_;
  ++summary.parted;
  if (details_.size() < kDetailed) details_.push_back(std::move(comparison));
}

std::vector<OpSummary> Alignment::Summaries() const {
  std::vector<OpSummary> summaries = summaries_;
  std::stable_sort(summaries.begin(), summaries.end(),
                   [](const OpSummary& a, const OpSummary& b) { return a.kind < b.kind; });
  return summaries;
}

}  // namespace medley
