#include "runtime/wire/reduction_codec.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/base/status_macros.h"
#include "runtime/wire/algorithm_codec.h"
#include "runtime/wire/plan_codec.h"

namespace medley {
namespace {

template <typename... Parts>
absl::Status Invalid(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}

absl::Status CheckHolders(const std::vector<int>& holders, int ranks) {
  const std::string text = absl::StrJoin(holders, ", ");
  if (holders.size() < 2) return Invalid("holders: ", text, " are fewer than two");
  if (holders.back() >= ranks)
    return Invalid("holders: ", text, " are not all below ", ranks, ", the plan's ranks");
  const auto unsorted =
      std::adjacent_find(holders.begin(), holders.end(), [](int a, int b) { return a >= b; });
  if (unsorted != holders.end()) return Invalid("holders: ", text, " are not ascending");
  return absl::OkStatus();
}

absl::Status CheckOrder(const std::vector<int>& order, size_t members) {
  if (order.empty()) return absl::OkStatus();
  std::vector<int> sorted = order, places(members);
  std::sort(sorted.begin(), sorted.end());
  std::iota(places.begin(), places.end(), 0);
  if (sorted == places) return absl::OkStatus();
  return Invalid("order: ", absl::StrJoin(order, ", "), " is no permutation of 0 to ", members - 1,
                 ", the holders' places");
}

// Level by level: the groups of one are what the next one groups.
absl::Status CheckLevels(const CollectiveChoice& choice, size_t members) {
  if (!choice.shape.levels.empty() && choice.algorithm != CollectiveAlgorithm::kHierarchical) {
    return Invalid("levels: are given, but algorithm is not hierarchical");
  }
  int64_t left = static_cast<int64_t>(members);
  for (size_t level = 0; level < choice.shape.levels.size(); ++level) {
    const std::vector<int>& sizes = choice.shape.levels[level];
    const int64_t sum = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
    if (sum != left) {
      return Invalid("levels[", level, "].group_sizes: ", absl::StrJoin(sizes, ", "), " sum up to ", sum,
                     ", not to ", left, level == 0 ? ", the holders" : ", the groups of the level before");
    }
    left = static_cast<int64_t>(sizes.size());
  }
  return absl::OkStatus();
}

absl::Status CheckShares(const std::vector<double>& shares, size_t members) {
  if (shares.empty()) return absl::OkStatus();
  if (shares.size() != members)
    return Invalid("shares: has ", shares.size(), " elements for ", members, " holders");
  if (*std::max_element(shares.begin(), shares.end()) > 0) return absl::OkStatus();
  return Invalid("shares: are all 0");
}

absl::StatusOr<ReductionChoice> DecodeReduction(const v1::Reduction& reduction, int ranks) {
  ReductionChoice result;
  const std::vector<int> holders(reduction.holders().begin(), reduction.holders().end());
  RETURN_IF_ERROR(CheckHolders(holders, ranks));
  result.holders.assign(holders.begin(), holders.end());
  result.elements = static_cast<int64_t>(reduction.elements());
  ASSIGN_OR_RETURN(result.choice.algorithm, DecodeAllReduceAlgorithm(reduction.algorithm()));
  GroupShape& shape = result.choice.shape;
  shape.order.assign(reduction.order().begin(), reduction.order().end());
  for (const v1::ReductionLevel& level : reduction.levels()) {
    shape.levels.emplace_back(level.group_sizes().begin(), level.group_sizes().end());
  }
  shape.shares.assign(reduction.shares().begin(), reduction.shares().end());
  result.choice.predicted_seconds = reduction.predicted_seconds();
  RETURN_IF_ERROR(CheckOrder(shape.order, result.holders.size()));
  RETURN_IF_ERROR(CheckLevels(result.choice, result.holders.size()));
  RETURN_IF_ERROR(CheckShares(shape.shares, result.holders.size()));
  return result;
}

}  // namespace

v1::Reduction EncodeReduction(const ReductionChoice& reduction) {
  v1::Reduction encoded;
  for (const Rank holder : reduction.holders) encoded.add_holders(static_cast<uint32_t>(holder));
  encoded.set_elements(static_cast<uint64_t>(reduction.elements));
  encoded.set_algorithm(EncodeAllReduceAlgorithm(reduction.choice.algorithm));
  for (const int place : reduction.choice.shape.order) encoded.add_order(static_cast<uint32_t>(place));
  for (const std::vector<int>& sizes : reduction.choice.shape.levels) {
    v1::ReductionLevel& level = *encoded.add_levels();
    for (const int size : sizes) level.add_group_sizes(static_cast<uint32_t>(size));
  }
  for (const double share : reduction.choice.shape.shares) encoded.add_shares(share);
  encoded.set_predicted_seconds(reduction.choice.predicted_seconds);
  return encoded;
}

absl::StatusOr<std::vector<ReductionChoice>> DecodeReductions(const v1::TrainTask& train) {
  std::vector<ReductionChoice> reductions;
  std::map<std::pair<std::vector<Rank>, int64_t>, int> entries;  // their places
  for (int i = 0; i < train.reductions_size(); ++i) {
    absl::StatusOr<ReductionChoice> reduction =
        DecodeReduction(train.reductions(i), DeviceCountOf(train.plan()));
    if (!reduction.ok()) return Invalid("reductions[", i, "].", reduction.status().message());
    const auto [present, is_new] =
        entries.emplace(std::make_pair(reduction->holders, reduction->elements), i);
    if (!is_new) {
      return Invalid("reductions[", i, "]: has the holders and the elements of reductions[", present->second,
                     "]");
    }
    reductions.push_back(*std::move(reduction));
  }
  return reductions;
}

}  // namespace medley
