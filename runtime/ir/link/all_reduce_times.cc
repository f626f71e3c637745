#include "runtime/ir/link/all_reduce_times.h"

#include <cstdlib>

#include "absl/strings/str_cat.h"

namespace medley {

double MeasuredSumSeconds(absl::Span<const AllReduceTimes> times, int members, double bytes) {
  const AllReduceTimes* nearest = &times.front();
  for (const AllReduceTimes& other : times) {
    if (std::abs(other.members - members) <= std::abs(nearest->members - members)) nearest = &other;
  }
  const double n = members, m = nearest->members;
  return (n - 1) / (m - 1) * nearest->seconds.Seconds(bytes * m / n);
}

absl::Status CheckAllReduceTimes(absl::Span<const AllReduceTimes> times) {
  for (size_t i = 0; i < times.size(); ++i) {
    const auto refuse = [&](const auto&... what) {
      return absl::InvalidArgumentError(absl::StrCat("[", i, "].", what...));
    };
    if (times[i].members < 2) return refuse("members: ", times[i].members, "; must be at least 2");
    if (i > 0 && times[i].members <= times[i - 1].members)
      return refuse("members: ", times[i].members, " after ", times[i - 1].members, "; must ascend");
    if (times[i].seconds.points.empty()) return refuse("points: there are none; at least one is needed");
    const absl::Status sound = CheckLinkModel(times[i].seconds);
    if (!sound.ok()) return refuse("points", sound.message());
  }
  return absl::OkStatus();
}

}  // namespace medley
