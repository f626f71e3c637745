#include "agent/profile/recomputed_part.h"

#include <vector>

#include "agent/profile/timed_shard.h"
#include "runtime/base/status_macros.h"

namespace medley {

absl::StatusOr<double> RecomputedPart(Device& device, const TrainingShape& shape, Precision precision,
                                      BlockRange layers, int micro_batch, Recompute recompute,
                                      double turn_seconds) {
  absl::StatusOr<TimedShard> shard =
      TimedShard::Create(device, shape, precision, layers, micro_batch, /*splits=*/false, recompute);
  const absl::Status warm = shard.ok() ? shard->TimeRecomputing().status() : shard.status();
  if (absl::IsResourceExhausted(warm)) return 0;
  RETURN_IF_ERROR(warm);
  constexpr int kRounds = 3;
  std::vector<PassSample> forward, again;
  for (int round = 0; round < kRounds; ++round) {
    TimedShard::RecomputingRepetition sum;
    do {
      ASSIGN_OR_RETURN(const TimedShard::RecomputingRepetition one, shard->TimeRecomputing());
      sum.forward += one.forward;
      sum.again += one.again;
    } while (sum.forward.seconds + sum.again.seconds < turn_seconds);
    forward.push_back(sum.forward);
    again.push_back(sum.again);
  }
  const double forward_seconds = MiddleOf(forward).seconds;
  return forward_seconds > 0 ? MiddleOf(again).seconds / forward_seconds : 0;
}

}  // namespace medley
