#pragma once
#include <vector>

#include "absl/status/statusor.h"
#include "agent/profile/host_turns.h"
#include "agent/profile/pass_judgement.h"
#include "runtime/device/device.h"
#include "runtime/ir/model/model_config.h"

// How long a device takes for a layer beside the other devices of its host.
namespace medley {

// What is measured of a device beside the others of its host.
struct SharedTimes {
  MeasuredPass layer;  // in its own turns
  // For each round of turns that counts, mean seconds in the turn of all over those in its own: of forward and
  // backward of a layer, and, of every fourth round, of norms and updates.
  std::vector<double> pass_ratios, update_ratios;
};

// Times a layer at one size, over and over for `seconds`, in turns with the other devices of the host, which begin at
// about the same time; what is near the beginning and the end does not count, as others may not compute then. Alone and
// together follow each other so closely that a machine whose speed drifts deceives nobody. No ratios: a repetition
// takes longer than a turn, or `turns` has none.
// ResourceExhausted: it does not fit the device.
absl::StatusOr<SharedTimes> TimeLayerInTurns(Device& device, const TrainingShape& shape, Precision precision,
                                             int micro_batch, double seconds, const HostTurns& turns);

}  // namespace medley
