#include "coordinator/planner/classes/place_bound.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "coordinator/planner/classes/parts_alone.h"
#include "runtime/base/dtype.h"
#include "runtime/ir/link/link_rise.h"
#include "runtime/ir/model/parameters.h"

namespace medley {
namespace {

// Parts of vectors are whole elements.
constexpr double kRounding = 1e-3;

// Of links from each place to others.
std::map<int, LinkRise> RisesByPlace(const PlanningProblem& problem) {
  const std::vector<int> place_of = OutermostPlaces(problem);
  std::map<int, LinkRise> rises;
  for (const LinkedDevices& kind : KindsOfLinks(problem)) {
    const int a = place_of[kind.a], b = place_of[kind.b];
    if (a == b) continue;
    for (const int place : {a, b}) rises[place].Cover(problem.links.Between(kind.a, kind.b));
  }
  return rises;
}

// A number of sequences, which all sizes of micro-batches divide that the batch can be cut into: there is none of others.
int64_t WholeMicroBatches(const PlanningProblem& problem, double sequences) {
  int64_t least = 1;
  for (const int size : problem.micro_batch_sizes) {
    if (DividesBatch(problem, size)) least = std::lcm<int64_t>(least, size);
  }
  return std::max<int64_t>(0, static_cast<int64_t>(sequences) / least * least);
}

}  // namespace

double PlaceBoundSeconds(const PlanningProblem& problem, double bound_seconds, double known_seconds,
                         absl::FunctionRef<double(const PlanningProblem& home)> at_home) {
  std::vector<PlanningProblem> homes = Homes(problem);
  if (homes.empty()) return 0;
  double bytes_per_second = 0, fastest_bytes_per_second = 0;
  for (const auto& [place, rise] : RisesByPlace(problem)) {
    // Small messages that come in no time would have to be counted.
    if (rise.level_bytes > 0 || !(rise.bytes_per_second < std::numeric_limits<double>::infinity())) return 0;
    bytes_per_second += rise.bytes_per_second;
    fastest_bytes_per_second = std::max(fastest_bytes_per_second, rise.bytes_per_second);
  }
  Dtype narrowest = Dtype::kF32;
  for (const DeviceCost& device : problem.devices) {
    if (device.network_cards <= 0) return 0;
    if (SizeOf(device.activations) < SizeOf(narrowest)) narrowest = device.activations;
  }
  // All of a vector over two places or more comes into one of them.
  const double summed_seconds = (1 - kRounding) * problem.wire_bytes_per_element *
                                static_cast<double>(ModelElements(problem.shape.model)) /
                                fastest_bytes_per_second;
  if (summed_seconds <= bound_seconds) return 0;
  // An activation leaves a place, and a gradient another one or the same.
  const double sequence_bytes = 2.0 * problem.shape.sequence * problem.shape.model.hidden *
                                static_cast<double>(SizeOf(narrowest).value);
  const double crossing = known_seconds * bytes_per_second / sequence_bytes;
  double seconds = summed_seconds;
  for (PlanningProblem& home : homes) {
    home.shape.global_batch_sequences =
        static_cast<int>(WholeMicroBatches(problem, home.shape.global_batch_sequences - crossing));
    if (home.shape.global_batch_sequences == 0) return 0;
    seconds = std::min(seconds, at_home(home));
  }
  return std::min(seconds, known_seconds);
}

}  // namespace medley
