#include "runtime/engine/exec/slice_schedules.h"

#include <algorithm>

#include "runtime/ir/collective/all_reduce_schedule.h"
#include "runtime/ir/collective/halving_doubling_schedule.h"
#include "runtime/ir/collective/ring_schedule.h"

namespace medley {

SliceSchedules SchedulesOf(const StepProgram& program, const std::vector<ReductionChoice>& reductions) {
  SliceSchedules schedules;
  for (const GradientSlice& slice : program.slices) {
    const int members = static_cast<int>(slice.holders.size());
    const auto place = std::find(slice.holders.begin(), slice.holders.end(), program.rank);
    const int own = static_cast<int>(place - slice.holders.begin());
    const CollectiveChoice choice = ChoiceFor(reductions, slice.holders, slice.elements);
    if (slice.shares.empty()) {
      schedules.sums.push_back(AllReduceSchedule(members, slice.elements, choice, own).value());
      continue;
    }
    if (choice.algorithm == CollectiveAlgorithm::kHalvingDoubling) {
      schedules.sums.push_back(HalvingReduceScatter(members, slice.elements, slice.shares, own));
      schedules.gathers.push_back(DoublingAllGather(members, slice.elements, slice.shares, own));
      continue;
    }
    // Otherwise around a ring in the order of the choice, whatever its algorithm.
    const GroupShape shape{.order = choice.shape.order, .shares = slice.shares};
    schedules.sums.push_back(RingReduceScatter(members, slice.elements, shape, own));
    schedules.gathers.push_back(RingAllGather(members, slice.elements, shape, own));
  }
  return schedules;
}

}  // namespace medley
