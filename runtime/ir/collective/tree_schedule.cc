#include "runtime/ir/collective/tree_schedule.h"

#include <bit>
#include <utility>

#include "runtime/ir/collective/schedule_builder.h"

namespace medley {
namespace {

using Receiver = ScheduleBuilder::Receiver;

int RoundsFor(size_t members) { return std::bit_width(members - 1); }

void AddReduce(ScheduleBuilder& builder, const std::vector<int>& order, ElementRange all) {
  const size_t n = order.size();
  for (int round = 0; round < RoundsFor(n); ++round) {
    const size_t step = size_t{1} << round;
    for (size_t to = 0; to + step < n; to += 2 * step) {
      builder.Message(order[to + step], order[to], all, round, Receiver::kAdds);
    }
  }
}

void AddBroadcast(ScheduleBuilder& builder, const std::vector<int>& order, ElementRange all,
                  int first_round) {
  const size_t n = order.size();
  const int rounds = RoundsFor(n);
  for (int round = 0; round < rounds; ++round) {
    const size_t step = size_t{1} << (rounds - 1 - round);
    for (size_t from = 0; from + step < n; from += 2 * step) {
      builder.Message(order[from], order[from + step], all, first_round + round, Receiver::kCopies);
    }
  }
}

}  // namespace

CollectiveSchedule TreeAllReduceSchedule(int members, int64_t elements, const GroupShape& shape,
                                         std::optional<int> only) {
  ScheduleBuilder builder(members, elements, only);
  const std::vector<int> order = OrderOf(shape, members);
  AddReduce(builder, order, {0, elements});
  AddBroadcast(builder, order, {0, elements}, RoundsFor(order.size()));
  return std::move(builder).Finish();
}

}  // namespace medley
