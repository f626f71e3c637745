#pragma once
#include <string>
#include <vector>

#include "runtime/ir/cluster/device_profile.h"

// Whether a new profile can be right, beside an older one of the same device kind and shape. Pure.
namespace medley {

struct ProfileChange {
  int index = 0;    // into the times of the newer profile
  std::string why;  // a sentence, for people
};

// The sizes of `newer` at which a layer or the head takes 1.5 times as long as in `older`, or longer: devices
// of a kind are alike and do not grow slow, so something else was measured.
std::vector<ProfileChange> MuchSlower(const DeviceProfile& older, const DeviceProfile& newer);

// `first` and `second` have the same sizes: that whose largest size takes less time, with fewer doubts before
// all.
DeviceProfile FasterOf(DeviceProfile first, DeviceProfile second);

// Adds to the doubts of the times.
void MarkAsDoubtful(const std::vector<ProfileChange>& changes, DeviceProfile& profile);

}  // namespace medley
