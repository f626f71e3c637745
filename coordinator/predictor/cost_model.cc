#include "coordinator/predictor/cost_model.h"

namespace medley {

std::optional<RankCosts> CostsOf(const DeviceCost& device, const ModelConfig& model,
                                 const ModelShare& share) {
  if (share == WholeModel(model)) {
    if (device.times.empty()) return std::nullopt;
    return RankCosts{device.room, device.times, device.update_seconds_per_parameter,
                     device.norm_seconds_per_parameter};
  }
  const ModelShare wanted = AtOrigin(share);
  for (const ShareCost& cost : device.shares) {
    if (cost.share != wanted) continue;
    return RankCosts{cost.room, cost.times, cost.update_seconds_per_parameter,
                     cost.norm_seconds_per_parameter};
  }
  return std::nullopt;
}

}  // namespace medley
