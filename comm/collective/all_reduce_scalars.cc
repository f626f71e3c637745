#include "comm/collective/all_reduce_scalars.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "comm/collective/members.h"
#include "comm/transport/message_round.h"
#include "runtime/base/status_macros.h"
#include "runtime/ir/collective/scalar_tree.h"

namespace medley {
namespace {

constexpr MessageTag kTag{MessageTag::Kind::kScalars, 0, 0};
constexpr char kWhat[] = "all-reduce of scalars";

absl::Span<const std::byte> BytesOf(absl::Span<const double> values) {
  return {reinterpret_cast<const std::byte*>(values.data()), values.size() * sizeof(double)};
}
absl::Span<std::byte> BytesOf(absl::Span<double> values) {
  return {reinterpret_cast<std::byte*>(values.data()), values.size() * sizeof(double)};
}

// One member's part of a sum.
class ScalarSum {
 public:
  ScalarSum(Transport& transport, absl::Span<const int> members, int place, absl::Span<const double> values,
            absl::Time deadline)
      : transport_(transport),
        members_(members),
        place_(place),
        deadline_(deadline),
        sums_(values.begin(), values.end()) {}

  absl::Status Run() {
    const ScalarTree tree(static_cast<int>(members_.size()));
    int level = 0;
    for (; level < tree.levels() && tree.TakesPart(level + 1, place_); ++level) {
      RETURN_IF_ERROR(Take(tree.GroupOf(level, place_), /*gives=*/false));
    }
    if (level == tree.levels()) {
      RETURN_IF_ERROR(Take(tree.GroupOf(level, place_), /*gives=*/true));
    } else {
      RETURN_IF_ERROR(AskOf(tree.GroupOf(level, place_).front()));
    }
    while (level-- > 0) RETURN_IF_ERROR(Spread(tree.GroupOf(level, place_)));
    return absl::OkStatus();
  }

  const std::vector<double>& sums() const { return sums_; }

 private:
  // The sums become those over `group`, added in its order; if it `gives`, the others get this member's as well.
  absl::Status Take(const std::vector<int>& group, bool gives) {
    const size_t count = sums_.size();
    std::vector<double> all(group.size() * count);
    const auto row = [&](size_t i) { return absl::MakeSpan(all).subspan(i * count, count); };
    MessageRound round(transport_, kTag, kWhat);
    for (size_t i = 0; i < group.size(); ++i) {
      if (group[i] == place_) {
        std::copy(sums_.begin(), sums_.end(), row(i).begin());
        continue;
      }
      RETURN_IF_ERROR(round.Receive(members_[group[i]], BytesOf(row(i))));
      if (gives) RETURN_IF_ERROR(round.Send(members_[group[i]], BytesOf(absl::MakeConstSpan(sums_))));
    }
    RETURN_IF_ERROR(round.Await(deadline_));
    std::fill(sums_.begin(), sums_.end(), 0.0);
    for (size_t i = 0; i < group.size(); ++i) {
      for (size_t k = 0; k < count; ++k) sums_[k] += row(i)[k];
    }
    return absl::OkStatus();
  }

  // The sums become those of `first`, who gets this member's.
  absl::Status AskOf(int first) {
    std::vector<double> all(sums_.size());
    MessageRound round(transport_, kTag, kWhat);
    RETURN_IF_ERROR(round.Receive(members_[first], BytesOf(absl::MakeSpan(all))));
    RETURN_IF_ERROR(round.Send(members_[first], BytesOf(absl::MakeConstSpan(sums_))));
    RETURN_IF_ERROR(round.Await(deadline_));
    sums_ = std::move(all);
    return absl::OkStatus();
  }

  // The others of `group` get the sums.
  absl::Status Spread(const std::vector<int>& group) {
    MessageRound round(transport_, kTag, kWhat);
    for (const int other : group) {
      if (other != place_) RETURN_IF_ERROR(round.Send(members_[other], BytesOf(absl::MakeConstSpan(sums_))));
    }
    return round.Await(deadline_);
  }

  Transport& transport_;
  const absl::Span<const int> members_;
  const int place_;
  const absl::Time deadline_;
  std::vector<double> sums_;
};

}  // namespace

absl::Status AllReduceScalars(Transport& transport, absl::Span<const int> members, absl::Span<double> values,
                              absl::Time deadline) {
  ASSIGN_OR_RETURN(const int place, PlaceAmong(transport, members));
  if (members.size() == 1 || values.empty()) return absl::OkStatus();
  ScalarSum sum(transport, members, place, values, deadline);
  RETURN_IF_ERROR(sum.Run());
  std::copy(sum.sums().begin(), sum.sums().end(), values.begin());
  return absl::OkStatus();
}

}  // namespace medley
