#include "coordinator/problem/profile_change.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace medley {
namespace {

constexpr double kMuchSlower = 1.5;

double LayerSeconds(const v1::BlockPassTimes& times) {
  return times.layer_forward_seconds() + times.layer_backward_seconds();
}

double HeadSeconds(const v1::BlockPassTimes& times) {
  return times.head_forward_seconds() + times.head_backward_seconds();
}

// Doubts, and the time of the largest size.
std::pair<int, double> Rank(const v1::DeviceProfile& profile) {
  int doubts = 0;
  for (const v1::BlockPassTimes& times : profile.times()) doubts += times.doubt().empty() ? 0 : 1;
  return {doubts, profile.times_size() == 0 ? 0 : LayerSeconds(profile.times(profile.times_size() - 1))};
}

}  // namespace

std::vector<ProfileChange> MuchSlower(const v1::DeviceProfile& older, const v1::DeviceProfile& newer) {
  std::vector<ProfileChange> changes;
  for (int i = 0; i < newer.times_size(); ++i) {
    const v1::BlockPassTimes& now = newer.times(i);
    for (const v1::BlockPassTimes& then : older.times()) {
      if (then.micro_batch_sequences() != now.micro_batch_sequences() || !then.doubt().empty()) continue;
      for (const auto& [name, seconds] :
           {std::pair("a layer", &LayerSeconds), std::pair("the head", &HeadSeconds)}) {
        // What takes no time beside a layer may take any multiple of it.
        if (20 * seconds(now) < LayerSeconds(now) || seconds(then) <= 0 ||
            seconds(now) < kMuchSlower * seconds(then))
          continue;
        changes.push_back(
            {i,
             absl::StrFormat("%s with %d windows takes %.3g ms; it took %.3g ms when it was measured before",
                             name, now.micro_batch_sequences(), 1e3 * seconds(now), 1e3 * seconds(then))});
        break;
      }
    }
  }
  return changes;
}

v1::DeviceProfile FasterOf(v1::DeviceProfile first, v1::DeviceProfile second) {
  return Rank(second) < Rank(first) ? std::move(second) : std::move(first);
}

void MarkAsDoubtful(const std::vector<ProfileChange>& changes, v1::DeviceProfile& profile) {
  for (const ProfileChange& change : changes) {
    v1::BlockPassTimes& times = *profile.mutable_times(change.index);
    times.set_doubt(
        absl::StrCat(times.doubt(), times.doubt().empty() ? "" : "; ", change.why).substr(0, 1000));
  }
}

}  // namespace medley
