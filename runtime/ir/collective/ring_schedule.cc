#include "runtime/ir/collective/ring_schedule.h"

#include <utility>

#include "runtime/ir/collective/ring_messages.h"

namespace medley {
namespace {

struct Ring {
  std::vector<int> order;
  std::vector<ElementRange> slices;  // by place in the ring
};

Ring RingOf(int members, const GroupShape& shape, const std::vector<ElementRange>& by_member) {
  Ring ring{OrderOf(shape, members), {}};
  for (const int member : ring.order) ring.slices.push_back(by_member[member]);
  return ring;
}

}  // namespace

CollectiveSchedule RingReduceScatter(int members, int64_t elements, const GroupShape& shape,
                                     std::optional<int> only) {
  const Ring ring = RingOf(members, shape, OwnedSlices(elements, members, shape.shares));
  ScheduleBuilder builder(members, elements, only);
  AddRingReduceScatter(builder, ring.order, ring.slices, /*first_round=*/0);
  return std::move(builder).Finish();
}

CollectiveSchedule RingAllGather(int members, int64_t elements, const GroupShape& shape,
                                 std::optional<int> only) {
  const Ring ring = RingOf(members, shape, OwnedSlices(elements, members, shape.shares));
  ScheduleBuilder builder(members, elements, only);
  AddRingAllGather(builder, ring.order, ring.slices, /*first_round=*/0);
  return std::move(builder).Finish();
}

CollectiveSchedule RingAllReduceSchedule(int members, int64_t elements, const GroupShape& shape,
                                         std::optional<int> only) {
  const Ring ring = RingOf(members, shape, SlicesOf(elements, members, shape.shares));
  ScheduleBuilder builder(members, elements, only);
  AddRingReduceScatter(builder, ring.order, ring.slices, /*first_round=*/0);
  AddRingAllGather(builder, ring.order, ring.slices, /*first_round=*/members - 1);
  return std::move(builder).Finish();
}

}  // namespace medley
