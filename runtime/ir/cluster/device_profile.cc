#include "runtime/ir/cluster/device_profile.h"

#include <algorithm>

namespace medley {

std::string NameOf(TimeClass times) {
  switch (times) {
    case TimeClass::kPasses:
      return "passes";
    case TimeClass::kRecomputations:
      return "recomputations";
    case TimeClass::kUpdates:
      return "updates";
    case TimeClass::kNorms:
      return "norms";
    case TimeClass::kFetches:
      return "fetches";
    case TimeClass::kStores:
      return "stores";
  }
  return "?";
}

double FactorOf(const ProfileCorrections& corrections, TimeClass times) {
  const auto own = corrections.find(times);
  if (own != corrections.end()) return own->second.factor;
  return times == TimeClass::kRecomputations ? FactorOf(corrections, TimeClass::kPasses) : 1;
}

bool Has(const DeviceProfile& profile, TimeClass times) {
  switch (times) {
    case TimeClass::kPasses:
      return !profile.times.empty();
    case TimeClass::kRecomputations:
      return !profile.times.empty() &&
             std::all_of(profile.times.begin(), profile.times.end(), [](const ProfiledTimes& of_size) {
               const PassTimes& layer = of_size.blocks.layer;
               return layer.recompute_seconds > 0 && layer.recompute_but_attention_seconds > 0;
             });
    case TimeClass::kUpdates:
      return profile.update_seconds_per_parameter > 0;
    case TimeClass::kNorms:
      return profile.norm_seconds_per_parameter > 0;
    case TimeClass::kFetches:
      return profile.fetch_bytes_per_second > 0;
    case TimeClass::kStores:
      return profile.store_bytes_per_second > 0;
  }
  return false;
}

}  // namespace medley
