#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/device/device.h"
#include "runtime/engine/exec/made_up_windows.h"
#include "runtime/engine/exec/window_source.h"
#include "runtime/engine/shard/parameter_arena.h"
#include "runtime/ir/job/training_spec.h"
#include "runtime/ir/plan/plan.h"

// Trains a tiny model under a plan with all ranks in this process: one thread and one device a rank,
// loopback.
namespace medley {

using Tensors = std::map<std::string, std::vector<float>>;

// The largest difference of the values of two sets of tensors; over the largest value of all of the second set's, or of each
// tensor by itself. Infinite if a value of either is not finite, or a tensor is missing in one or has another size.
enum class Over { kAll, kEach };
double Difference(const Tensors& a, const Tensors& b, Over over);

struct TrainingRun {
  std::vector<double> losses;  // by step
  std::vector<double> gradient_norms;
  double validation_loss = 0;  // after the last step
  // After the last step, each element as all its holders have it; of moments, as those that own it.
  Tensors parameters, first_moments, second_moments;
};

using WindowFactory = std::function<std::unique_ptr<WindowSource>()>;
// Writes into the arena what a job starts from; the default initialises from the job's seed.
using StartFunction = std::function<absl::Status(ParameterArena&)>;

// Opens the device of a rank; the default is the reference.
using DeviceOpener = std::function<absl::StatusOr<Device>(int rank)>;
// Every second rank is a device whose memory the host does not reach and whose work is done late.
absl::StatusOr<Device> OpenMixed(int rank);

// Internal: two holders of one parameter, or of its moments, end with different bits.
absl::StatusOr<TrainingRun> TrainUnderPlan(const TrainingSpec& spec, const Plan& plan,
                                           const WindowFactory& windows, const StartFunction& start = nullptr,
                                           const DeviceOpener& open = nullptr);

// Any valid plan over 1 to `max_devices` devices: routes, orders, splits, micro-batches and schedule at
// random; a third of the seeds shard the optimizer by weights at random, a quarter have layers of some units live in host
// memory, and of a quarter layers live with their holders where they can; of half some units' activations live on the host.
Plan RandomPlan(uint64_t seed, const TrainingShape& shape, int max_devices);

// Any valid plan of units with up to `max_degree` devices that share tensors evenly or not, half of them in
// sequence parallelism and some of the others with parts, with several ranges of blocks and on several routes, each with its own size of
// micro-batches; the optimizer and the layers as above.
Plan RandomWidePlan(uint64_t seed, const TrainingShape& shape, int max_degree);

// The same with post-validation: with all on the devices, and no optimizer sharded.
Plan GoAhead(Plan plan);

// One device, one route, the whole batch in micro-batches of `micro_batch`.
Plan SingleDevicePlan(const TrainingShape& shape, int micro_batch);

}  // namespace medley
