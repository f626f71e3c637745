#include "runtime/ir/collective/halving_doubling_schedule.h"

#include <utility>
#include <vector>

#include "runtime/ir/collective/schedule_builder.h"

namespace medley {
namespace {

using Receiver = ScheduleBuilder::Receiver;

// Who exchanges what: leaves that agree in their upper bits lie side by side, and so do their slices.
struct Halving {
  std::vector<int> member_of_leaf;
  std::vector<int> extra_of_leaf;    // who is folded into it; -1: nobody
  std::vector<ElementRange> slices;  // by leaf

  int count() const { return static_cast<int>(member_of_leaf.size()); }
  ElementRange Block(int leaf, int size) const {  // of the leaves around `leaf`
    const int first = leaf / size * size;
    return ElementRange{slices[first].begin, slices[first + size - 1].end};
  }
};

Halving HalvingOf(const std::vector<int>& order) {
  Halving halving;
  for (const HalvingLeaf& leaf : LeavesOf(static_cast<int>(order.size()))) {
    halving.member_of_leaf.push_back(order[leaf.member]);
    halving.extra_of_leaf.push_back(leaf.extra < 0 ? -1 : order[leaf.extra]);
  }
  return halving;
}

Halving HalvingOf(int members, const std::vector<ElementRange>& owned) {
  Halving halving = HalvingOf(OrderOf({}, members));
  for (int leaf = 0; leaf < halving.count(); ++leaf) {
    const int member = halving.member_of_leaf[leaf], extra = halving.extra_of_leaf[leaf];
    halving.slices.push_back({owned[member].begin, owned[extra < 0 ? member : extra].end});
  }
  return halving;
}

void FoldAll(const Halving& halving, int64_t elements, int round, ScheduleBuilder& builder) {
  for (int leaf = 0; leaf < halving.count(); ++leaf) {
    if (halving.extra_of_leaf[leaf] >= 0)
      builder.Message(halving.extra_of_leaf[leaf], halving.member_of_leaf[leaf], {0, elements}, round,
                      Receiver::kAdds);
  }
}
void UnfoldAll(const Halving& halving, int64_t elements, int round, ScheduleBuilder& builder) {
  for (int leaf = 0; leaf < halving.count(); ++leaf) {
    if (halving.extra_of_leaf[leaf] >= 0)
      builder.Message(halving.member_of_leaf[leaf], halving.extra_of_leaf[leaf], {0, elements}, round,
                      Receiver::kCopies);
  }
}

// Return the next round.
int AddHalving(const Halving& halving, int round, ScheduleBuilder& builder) {
  for (int half = halving.count() / 2; half >= 1; half /= 2, ++round) {
    for (int leaf = 0; leaf < halving.count(); ++leaf) {
      const int other = leaf ^ half;
      builder.Message(halving.member_of_leaf[leaf], halving.member_of_leaf[other], halving.Block(other, half),
                      round, Receiver::kAdds);
    }
  }
  return round;
}
int AddDoubling(const Halving& halving, int round, ScheduleBuilder& builder) {
  for (int half = 1; half < halving.count(); half *= 2, ++round) {
    for (int leaf = 0; leaf < halving.count(); ++leaf) {
      builder.Message(halving.member_of_leaf[leaf], halving.member_of_leaf[leaf ^ half],
                      halving.Block(leaf, half), round, Receiver::kCopies);
    }
  }
  return round;
}

}  // namespace

CollectiveSchedule HalvingDoublingSchedule(int members, int64_t elements, const GroupShape& shape,
                                           std::optional<int> only) {
  ScheduleBuilder builder(members, elements, only);
  Halving halving = HalvingOf(OrderOf(shape, members));
  std::vector<double> share_of_leaf;
  for (int leaf = 0; leaf < halving.count() && !shape.shares.empty(); ++leaf) {
    const int extra = halving.extra_of_leaf[leaf];
    share_of_leaf.push_back(shape.shares[halving.member_of_leaf[leaf]] +
                            (extra < 0 ? 0 : shape.shares[extra]));
  }
  halving.slices = SlicesOf(elements, halving.count(), share_of_leaf);
  FoldAll(halving, elements, /*round=*/0, builder);
  const int round = AddDoubling(halving, AddHalving(halving, /*round=*/1, builder), builder);
  UnfoldAll(halving, elements, round, builder);
  return std::move(builder).Finish();
}

CollectiveSchedule HalvingReduceScatter(int members, int64_t elements, const std::vector<double>& shares,
                                        std::optional<int> only) {
  ScheduleBuilder builder(members, elements, only);
  const std::vector<ElementRange> owned = OwnedSlices(elements, members, shares);
  const Halving halving = HalvingOf(members, owned);
  FoldAll(halving, elements, /*round=*/0, builder);
  const int round = AddHalving(halving, /*round=*/1, builder);
  for (int leaf = 0; leaf < halving.count(); ++leaf) {
    if (const int extra = halving.extra_of_leaf[leaf]; extra >= 0)
      builder.Message(halving.member_of_leaf[leaf], extra, owned[extra], round, Receiver::kCopies);
  }
  return std::move(builder).Finish();
}

CollectiveSchedule DoublingAllGather(int members, int64_t elements, const std::vector<double>& shares,
                                     std::optional<int> only) {
  ScheduleBuilder builder(members, elements, only);
  const std::vector<ElementRange> owned = OwnedSlices(elements, members, shares);
  const Halving halving = HalvingOf(members, owned);
  for (int leaf = 0; leaf < halving.count(); ++leaf) {
    if (const int extra = halving.extra_of_leaf[leaf]; extra >= 0)
      builder.Message(extra, halving.member_of_leaf[leaf], owned[extra], /*round=*/0, Receiver::kCopies);
  }
  UnfoldAll(halving, elements, AddDoubling(halving, /*round=*/1, builder), builder);
  return std::move(builder).Finish();
}

}  // namespace medley
