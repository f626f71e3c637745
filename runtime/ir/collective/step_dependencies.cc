#include "runtime/ir/collective/step_dependencies.h"

namespace medley {

std::vector<std::vector<int>> StepDependencies(absl::Span<const CollectiveStep> steps) {
  std::vector<std::vector<int>> dependencies(steps.size());
  for (size_t i = 0; i < steps.size(); ++i) {
    const CollectiveStep& step = steps[i];
    for (size_t j = i; j-- > 0;) {
      const CollectiveStep& before = steps[j];
      if (!step.range.Meets(before.range) || (step.Sends() && before.Sends())) continue;
      dependencies[i].push_back(static_cast<int>(j));
      const bool covers = before.range.begin <= step.range.begin && step.range.end <= before.range.end;
      if (covers && !before.Sends()) break;
    }
  }
  return dependencies;
}

}  // namespace medley
