#include "runtime/ir/collective/collective_schedule.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

absl::Status CheckOrder(const std::vector<int>& order, int members) {
  if (order.empty()) return absl::OkStatus();
  if (order.size() != static_cast<size_t>(members)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "order has ", order.size(), " places; must be empty or have one for each of ", members, " members"));
  }
  std::vector<bool> seen(members);
  for (size_t i = 0; i < order.size(); ++i) {
    if (order[i] < 0 || order[i] >= members) {
      return absl::InvalidArgumentError(
          absl::StrCat("order[", i, "] is ", order[i], ", not in [0, ", members, ")"));
    }
    if (seen[order[i]]) {
      return absl::InvalidArgumentError(
          absl::StrCat("order[", i, "] is ", order[i], ", which is there before"));
    }
    seen[order[i]] = true;
  }
  return absl::OkStatus();
}

absl::Status CheckLevels(const std::vector<std::vector<int>>& levels, int members) {
  int64_t parts = members;
  for (size_t level = 0; level < levels.size(); ++level) {
    int64_t sum = 0;
    for (size_t i = 0; i < levels[level].size(); ++i) {
      if (levels[level][i] < 1) {
        return absl::InvalidArgumentError(
            absl::StrCat("levels[", level, "][", i, "] is ", levels[level][i], "; must be at least 1"));
      }
      sum += levels[level][i];
    }
    if (sum != parts) {
      return absl::InvalidArgumentError(
          absl::StrCat("levels[", level, "] cuts ", sum, "; must cut the ", parts, " that are there"));
    }
    parts = static_cast<int64_t>(levels[level].size());
  }
  return absl::OkStatus();
}

absl::Status CheckShares(const std::vector<double>& shares, int members) {
  if (shares.empty()) return absl::OkStatus();
  if (shares.size() != static_cast<size_t>(members)) {
    return absl::InvalidArgumentError(absl::StrCat("shares has ", shares.size(),
                                                   " weights; must be empty or have one for each of ",
                                                   members, " members"));
  }
  for (size_t i = 0; i < shares.size(); ++i) {
    if (!(shares[i] >= 0 && shares[i] <= kMaximumShare)) {
      return absl::InvalidArgumentError(
          absl::StrCat("shares[", i, "] is ", shares[i], ", not in [0, ", kMaximumShare, "]"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::string NameOf(CollectiveAlgorithm algorithm) {
  switch (algorithm) {
    case CollectiveAlgorithm::kRing:
      return "ring";
    case CollectiveAlgorithm::kHalvingDoubling:
      return "halving-doubling";
    case CollectiveAlgorithm::kTree:
      return "tree";
    case CollectiveAlgorithm::kHierarchical:
      return "hierarchical";
  }
  return "";
}

absl::Status CheckGroupShape(const GroupShape& shape, int members) {
  if (members < 1)
    return absl::InvalidArgumentError(absl::StrCat("members is ", members, "; must be at least 1"));
  RETURN_IF_ERROR(CheckOrder(shape.order, members));
  RETURN_IF_ERROR(CheckLevels(shape.levels, members));
  return CheckShares(shape.shares, members);
}

std::vector<ElementRange> SlicesOf(int64_t elements, int members, const std::vector<double>& shares) {
  const double total = std::accumulate(shares.begin(), shares.end(), 0.0);
  std::vector<ElementRange> slices(members);
  double sum = 0;
  int64_t begin = 0;
  for (int i = 0; i < members; ++i) {
    int64_t end = elements;
    if (i + 1 < members && total > 0) {
      sum += shares[i];
      end = std::max(begin, std::min(elements, static_cast<int64_t>(std::llround(elements * (sum / total)))));
    } else if (i + 1 < members) {
      end = elements / members * (i + 1) + elements % members * (i + 1) / members;  // without overflow
    }
    slices[i] = {begin, end};
    begin = end;
  }
  return slices;
}

std::vector<HalvingLeaf> LeavesOf(int members) {
  const int count = static_cast<int>(std::bit_floor(static_cast<unsigned>(members))),
            extras = members - count;
  std::vector<HalvingLeaf> leaves(count);
  for (int number = 0; number < count; ++number) {
    int place = 0;
    for (int bit = 1; bit < count; bit *= 2) place = 2 * place + ((number & bit) != 0 ? 1 : 0);
    leaves[place].member = number + std::min(number, extras);
    if (number < extras) leaves[place].extra = leaves[place].member + 1;
  }
  return leaves;
}

std::vector<int> MembersBySlice(int members) {
  std::vector<int> by_slice;
  by_slice.reserve(members);
  for (const HalvingLeaf& leaf : LeavesOf(members)) {
    by_slice.push_back(leaf.member);
    if (leaf.extra >= 0) by_slice.push_back(leaf.extra);
  }
  return by_slice;
}

std::vector<ElementRange> OwnedSlices(int64_t elements, int members, const std::vector<double>& shares) {
  const std::vector<int> by_slice = MembersBySlice(members);
  std::vector<double> in_order;
  for (const int member : by_slice) {
    if (!shares.empty()) in_order.push_back(shares[member]);
  }
  const std::vector<ElementRange> slices = SlicesOf(elements, members, in_order);
  std::vector<ElementRange> owned(members);
  for (int i = 0; i < members; ++i) owned[by_slice[i]] = slices[i];
  return owned;
}

std::vector<int> OrderOf(const GroupShape& shape, int members) {
  if (!shape.order.empty()) return shape.order;
  std::vector<int> order(members);
  std::iota(order.begin(), order.end(), 0);
  return order;
}

}  // namespace medley
