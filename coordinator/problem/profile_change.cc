#include "coordinator/problem/profile_change.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/base/counted.h"

namespace medley {
namespace {

constexpr double kMuchSlower = 1.5;

// Doubts, and the time of the largest size.
std::pair<int, double> Rank(const DeviceProfile& profile) {
  int doubts = 0;
  for (const ProfiledTimes& times : profile.times) doubts += times.doubt.empty() ? 0 : 1;
  return {doubts, profile.times.empty() ? 0 : profile.times.back().blocks.layer.Seconds()};
}

}  // namespace

std::vector<ProfileChange> MuchSlower(const DeviceProfile& older, const DeviceProfile& newer) {
  std::vector<ProfileChange> changes;
  for (int i = 0; i < static_cast<int>(newer.times.size()); ++i) {
    const ProfiledTimes& now = newer.times[i];
    for (const ProfiledTimes& then : older.times) {
      if (then.micro_batch_sequences != now.micro_batch_sequences || !then.doubt.empty()) continue;
      for (const auto& [name, block] :
           {std::pair("a layer", &BlockTimes::layer), std::pair("the head", &BlockTimes::head)}) {
        const double seconds_now = (now.blocks.*block).Seconds(),
                     seconds_then = (then.blocks.*block).Seconds();
        // What takes no time beside a layer may take any multiple of it.
        if (20 * seconds_now < now.blocks.layer.Seconds() || seconds_then <= 0 ||
            seconds_now < kMuchSlower * seconds_then)
          continue;
        changes.push_back(
            {i, absl::StrFormat("%s with %s takes %.3g ms; it took %.3g ms when it was measured before", name,
                                Counted(now.micro_batch_sequences, "window"), 1e3 * seconds_now,
                                1e3 * seconds_then)});
        break;
      }
    }
  }
  return changes;
}

DeviceProfile FasterOf(DeviceProfile first, DeviceProfile second) {
  return Rank(second) < Rank(first) ? std::move(second) : std::move(first);
}

void MarkAsDoubtful(const std::vector<ProfileChange>& changes, DeviceProfile& profile) {
  for (const ProfileChange& change : changes) {
    std::string& doubt = profile.times[change.index].doubt;
    doubt = absl::StrCat(doubt, doubt.empty() ? "" : "; ", change.why).substr(0, 1000);
  }
}

}  // namespace medley
