#include "agent/profile/layer_in_turns.h"

#include <algorithm>
#include <map>

#include "agent/profile/timed_shard.h"
#include "runtime/base/clock.h"
#include "runtime/base/progress.h"
#include "runtime/base/status_macros.h"
#include "runtime/base/unix_time.h"

namespace medley {
namespace {

// A device's own turn in a round, and that of all.
struct TurnsOfRound {
  // A turn's first repetition finds caches as others have left them: it counts where there is no other.
  struct OfTurn {
    double first_seconds = 0, later_seconds = 0;
    int later = 0;

    void Add(double seconds) {
      if (first_seconds == 0) {
        first_seconds = std::max(seconds, 1e-9);
        return;
      }
      later_seconds += seconds;
      ++later;
    }
  };
  OfTurn alone, together;

  // `seconds`: with what waited for a processor that others had. What else a machine does finds a core that computes nothing as long as
  // there is one, and takes its time from the devices' passes where all compute.
  void Add(bool of_all, double seconds) { (of_all ? together : alone).Add(seconds); }
  bool complete() const { return alone.first_seconds > 0 && together.first_seconds > 0; }
  double ratio() const {
    if (alone.later == 0 || together.later == 0) return together.first_seconds / alone.first_seconds;
    return together.later_seconds / together.later / (alone.later_seconds / alone.later);
  }
};

// At either end, in which others may not have begun or not go on.
constexpr double kStartingShare = 0.125;
// One round in so many times norms and updates.
constexpr int64_t kRoundsAnUpdate = 4;

}  // namespace

absl::StatusOr<SharedTimes> TimeLayerInTurns(Device& device, const TrainingShape& shape, Precision precision,
                                             int micro_batch, double seconds, const HostTurns& turns) {
  const auto of_layers = [&](int count) {
    return TimedShard::Create(device, shape, precision, {1, 1 + count}, micro_batch, /*splits=*/false);
  };
  absl::StatusOr<TimedShard> created = of_layers(LayersToTime(device, shape, micro_batch));
  if (absl::IsResourceExhausted(created.status()) && shape.model.layers > kFewestTimedLayers)
    created = of_layers(kFewestTimedLayers);
  RETURN_IF_ERROR(created.status());
  TimedShard& timed = *created;
  const int layers = timed.PieceLayers();
  int updates = 0;
  const auto time_update = [&]() -> absl::StatusOr<PassSample> {
    ASSIGN_OR_RETURN(PassSample sample, timed.TimeNorms());
    ASSIGN_OR_RETURN(const PassSample update, timed.TimeUpdate(++updates));
    return sample += update;
  };
  const bool in_turns = turns.turn_seconds > 0;
  const auto is_of_update = [&](int64_t round) { return in_turns && round % kRoundsAnUpdate == 0; };
  // The first ones touch memory for the first time.
  if (in_turns) {
    RETURN_IF_ERROR(timed.TimeOnce().status());
    RETURN_IF_ERROR(time_update().status());
  }
  std::map<int64_t, TurnsOfRound> rounds;
  std::vector<PassSample> forward, backward, both;
  const auto keep = [&](const BlockRepetition& repetition) {
    forward.push_back({repetition.forward.seconds / layers, repetition.forward.waited_seconds / layers});
    backward.push_back({repetition.backward.seconds / layers, repetition.backward.waited_seconds / layers});
    both.push_back(repetition.all());
  };
  double last_pass_seconds = 0, last_update_seconds = 0;
  const absl::Time start = Now();
  const auto since_start = [&] { return absl::ToDoubleSeconds(Now() - start); };
  while (since_start() < seconds) {
    const double began = since_start(), clock = UnixSecondsNow();
    const Turn turn = TurnAt(turns, clock);
    const bool of_update = is_of_update(turn.round);
    double& last_seconds = of_update ? last_update_seconds : last_pass_seconds;
    if (!turn.computes || clock + last_seconds > turn.end_seconds) {
      absl::SleepFor(absl::Seconds(std::min(turn.end_seconds - clock, seconds - began)));
      Progress::OfProcess().Add();
      continue;
    }
    PassSample sample;
    BlockRepetition repetition;
    if (of_update) {
      ASSIGN_OR_RETURN(sample, time_update());
    } else {
      ASSIGN_OR_RETURN(repetition, timed.TimePiece());
      sample = repetition.all();
    }
    last_seconds = sample.seconds;
    const bool counts = began >= kStartingShare * seconds &&
                        since_start() <= (1 - kStartingShare) * seconds &&
                        UnixSecondsNow() <= turn.end_seconds;
    if (!counts) continue;
    rounds[turn.round].Add(turn.of_all, sample.seconds);
    if (!of_update && (!in_turns || !turn.of_all)) keep(repetition);
  }
  // Nothing was short enough to count: then one does that is not.
  if (forward.empty()) {
    ASSIGN_OR_RETURN(const BlockRepetition repetition, timed.TimePiece());
    keep(repetition);
  }
  const double slowdown = ForeignSlowdown(both);
  const Middle f = MiddleOf(forward), b = MiddleOf(backward);
  SharedTimes times;
  times.layer = {.forward_seconds = f.seconds * slowdown,
                 .backward_seconds = b.seconds * slowdown,
                 .spread = std::max(f.spread, b.spread)};
  for (const auto& [round, turns_of] : rounds) {
    if (turns_of.complete())
      (is_of_update(round) ? times.update_ratios : times.pass_ratios).push_back(turns_of.ratio());
  }
  return times;
}

}  // namespace medley
