#include "coordinator/predictor/group_sums.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>
#include <utility>

namespace medley {
namespace {

// What more members take is asked of few sizes, and others lie between these.
constexpr int kMostTold = 8;
constexpr double kSizesOfOctave = 2;

}  // namespace

GroupSums::GroupSums(const PlanningProblem& problem, std::vector<int> devices, int most_exact)
    : devices_(std::move(devices)) {
  whole_ = SampleOf(problem, devices_, most_exact);
  if (static_cast<int>(devices_.size()) > most_exact) half_ = SampleOf(problem, devices_, most_exact / 2);
}

std::unique_ptr<GroupSums::Sample> GroupSums::SampleOf(const PlanningProblem& problem,
                                                       const std::vector<int>& devices, int most) {
  auto sample = std::make_unique<Sample>();
  std::vector<int> chosen;
  const size_t count = std::min<size_t>(devices.size(), most);
  for (size_t i = 0; i < count; ++i) chosen.push_back(devices[i * devices.size() / count]);
  sample->problem = OnDevices(problem, chosen);
  sample->reductions = std::make_unique<Reductions>(sample->problem);
  sample->all.resize(chosen.size());
  std::iota(sample->all.begin(), sample->all.end(), 0);
  return sample;
}

double GroupSums::Seconds(int64_t elements) {
  if (devices_.size() < 2 || elements == 0) return 0;
  if (members() <= kMostTold) return At(elements);
  const double step = std::floor(kSizesOfOctave * std::log2(static_cast<double>(elements)));
  const auto size = [](double at) { return static_cast<int64_t>(std::exp2(at / kSizesOfOctave)); };
  const int64_t below = size(step), above = std::max(below + 1, size(step + 1));
  const double part = static_cast<double>(elements - below) / static_cast<double>(above - below);
  return At(below) + part * (At(above) - At(below));
}

double GroupSums::At(int64_t elements) {
  const auto [entry, inserted] = seconds_.try_emplace(elements, 0);
  if (!inserted) return entry->second;
  return entry->second =
             half_ ? Extrapolated(elements)
                   : whole_->reductions->Seconds(whole_->reductions->GroupOf(whole_->all), elements);
}

double GroupSums::Extrapolated(int64_t elements) const {
  const std::optional<CollectiveAlgorithm>& forced = whole_->problem.forced_all_reduce;
  double least = std::numeric_limits<double>::infinity();
  const double members = static_cast<double>(devices_.size()),
               whole = static_cast<double>(whole_->all.size()), half = static_cast<double>(half_->all.size());
  for (const CollectiveAlgorithm algorithm :
       {CollectiveAlgorithm::kRing, CollectiveAlgorithm::kHalvingDoubling, CollectiveAlgorithm::kTree,
        CollectiveAlgorithm::kHierarchical}) {
    if (forced && algorithm != *forced) continue;
    // Without boundaries a hierarchy is a ring.
    const int group = whole_->reductions->GroupOf(whole_->all);
    if (!forced && algorithm == CollectiveAlgorithm::kHierarchical &&
        whole_->reductions->WaysIn(group) == static_cast<int>(whole_->all.size()))
      continue;
    const auto seconds = [&](const Sample& sample) {
      return sample.reductions->Choose(sample.all, elements, algorithm).predicted_seconds;
    };
    const double of_whole = seconds(*whole_), of_half = seconds(*half_);
    // Rounds of a ring grow with its members, those of the others with their logarithm.
    const double more = algorithm == CollectiveAlgorithm::kRing
                            ? (members - whole) / (whole - half)
                            : std::log2(members / whole) / std::log2(whole / half);
    least = std::min(least, of_whole + std::max(0.0, of_whole - of_half) * more);
  }
  return least;
}

}  // namespace medley
