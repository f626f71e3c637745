#include "runtime/ir/collective/halving_doubling_schedule.h"

#include <bit>
#include <numeric>
#include <utility>
#include <vector>

#include "runtime/ir/collective/schedule_builder.h"

namespace medley {
namespace {

using Receiver = ScheduleBuilder::Receiver;

// Who takes part in the exchanges, and who is folded into whom.
struct Folding {
  std::vector<int> participants;  // a power of two
  std::vector<int> extras;        // extras[i] is folded into participants[i]
};

Folding Fold(const std::vector<int>& order) {
  const int n = static_cast<int>(order.size());
  const int extras = n - static_cast<int>(std::bit_floor(static_cast<unsigned>(n)));
  Folding folding;
  for (int i = 0; i < n; ++i) {
    const bool extra = i < 2 * extras && i % 2 == 1;
    (extra ? folding.extras : folding.participants).push_back(order[i]);
  }
  return folding;
}

// Who exchanges what: leaves that agree in their upper bits lie side by side, and so do their slices.
struct Halving {
  std::vector<int> member_of_leaf;
  std::vector<ElementRange> slices;  // by leaf

  int count() const { return static_cast<int>(member_of_leaf.size()); }
  ElementRange Block(int leaf, int size) const {  // of the leaves around `leaf`
    const int first = leaf / size * size;
    return ElementRange{slices[first].begin, slices[first + size - 1].end};
  }
};

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

// What a participant ends with is a leaf, with the share of who is folded into it.
Halving HalvingOf(const Folding& folding, int64_t elements, const std::vector<double>& shares) {
  const int count = static_cast<int>(folding.participants.size());
  Halving halving{std::vector<int>(count), {}};
  std::vector<double> share_of_leaf;
  for (int leaf = 0; leaf < count; ++leaf) {
    const int participant = PlaceOfSlice(leaf, count);
    halving.member_of_leaf[leaf] = folding.participants[participant];
    if (shares.empty()) continue;
    share_of_leaf.push_back(shares[halving.member_of_leaf[leaf]]);
    if (participant < static_cast<int>(folding.extras.size())) {
      share_of_leaf.back() += shares[folding.extras[participant]];
    }
  }
  halving.slices = SlicesOf(elements, count, share_of_leaf);
  return halving;
}

Halving HalvingOf(int members, int64_t elements, const std::vector<double>& shares) {
  return HalvingOf(Fold(OrderOf({}, members)), elements, shares);
}

}  // namespace

CollectiveSchedule HalvingDoublingSchedule(int members, int64_t elements, const GroupShape& shape,
                                           std::optional<int> only) {
  ScheduleBuilder builder(members, elements, only);
  const Folding folding = Fold(OrderOf(shape, members));
  const Halving halving = HalvingOf(folding, elements, shape.shares);

  const ElementRange all{0, elements};
  for (size_t i = 0; i < folding.extras.size(); ++i) {
    builder.Message(folding.extras[i], folding.participants[i], all, /*round=*/0, Receiver::kAdds);
  }
  const int round = AddDoubling(halving, AddHalving(halving, /*round=*/1, builder), builder);
  for (size_t i = 0; i < folding.extras.size(); ++i) {
    builder.Message(folding.participants[i], folding.extras[i], all, round, Receiver::kCopies);
  }
  return std::move(builder).Finish();
}

CollectiveSchedule HalvingReduceScatter(int members, int64_t elements, const std::vector<double>& shares,
                                        std::optional<int> only) {
  ScheduleBuilder builder(members, elements, only);
  AddHalving(HalvingOf(members, elements, shares), /*round=*/0, builder);
  return std::move(builder).Finish();
}

CollectiveSchedule DoublingAllGather(int members, int64_t elements, const std::vector<double>& shares,
                                     std::optional<int> only) {
  ScheduleBuilder builder(members, elements, only);
  AddDoubling(HalvingOf(members, elements, shares), /*round=*/0, builder);
  return std::move(builder).Finish();
}

}  // namespace medley
