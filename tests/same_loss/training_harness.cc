#include "tests/same_loss/training_harness.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <thread>

#include "absl/strings/str_cat.h"
#include "comm/loopback/loopback_fabric.h"
#include "kernels/reference/reference_backend.h"
#include "kernels/skeleton/skeleton_backend.h"
#include "runtime/base/status_macros.h"
#include "runtime/engine/exec/plan_peers.h"
#include "runtime/engine/exec/step_executor.h"
#include "runtime/ir/program/random_order.h"
#include "runtime/ir/program/random_plan.h"

namespace medley {
namespace {

using Part = ParameterArena::Part;

absl::StatusOr<Device> OpenReference(int rank) {
  return ReferenceBackend().open(
      {.name = "test", .backend = "reference", .cores = {0}, .memory_limit = GiB(1)});
}

// What a rank does not hold of a tensor.
const float kNotHeld = std::nanf("1");

bool SameBits(float a, float b) { return std::memcmp(&a, &b, sizeof a) == 0; }

// What the harness tells of a run, by the part of an arena that it is from.
constexpr std::pair<Part, Tensors TrainingRun::*> kParts[] = {
    {Part::kParameter, &TrainingRun::parameters},
    {Part::kFirstMoment, &TrainingRun::first_moments},
    {Part::kSecondMoment, &TrainingRun::second_moments},
};

absl::Status TrainRank(const TrainingSpec& spec, const Plan& plan, int rank, Transport& transport,
                       WindowSource& windows, const StartFunction& start, const DeviceOpener& open,
                       TrainingRun& run) {
  ASSIGN_OR_RETURN(Device device, open(rank));
  const StepProgram program = CompileStep(plan, rank, spec.shape, Purpose::kTrain);
  ASSIGN_OR_RETURN(const std::unique_ptr<ModelShard> shard,
                   ModelShard::Create(device, ShardOptionsOf(plan, program, spec.shape, spec.precision)));
  const RankMemory memory = MemoryOfProgram(plan, program, spec.shape);
  if (device.queue->allocated() != memory.total())
    return absl::InternalError("a shard allocates something else than the memory model says");
  if (shard->host_allocated() != memory.host)
    return absl::InternalError("a shard allocates something else of host memory than the memory model says");
  RETURN_IF_ERROR(start ? start(shard->arena()) : shard->arena().Initialise(spec.seed));
  StepExecutor executor({.spec = spec, .plan = plan, .rank = rank, .stall_timeout = absl::Seconds(60)},
                        *shard, transport, windows);
  for (int64_t step = 1; step <= spec.steps; ++step) {
    ASSIGN_OR_RETURN(const StepOutcome outcome, executor.TrainStep(step, step < spec.steps));
    run.losses.push_back(outcome.loss);
    run.gradient_norms.push_back(outcome.gradient_norm);
  }
  ASSIGN_OR_RETURN(run.validation_loss, executor.Evaluate());
  const ParameterLayout whole = LayoutOf(spec.shape.model, plan.units[program.unit].chunks);
  for (const PlacedParameter& placed : whole.parameters) {
    for (const auto& [part, tensors] : kParts) {
      std::vector<float>& values = (run.*tensors)[placed.spec.name];
      values.assign(placed.spec.elements, kNotHeld);
      RETURN_IF_ERROR(shard->arena().Read(part, placed.spec.name, absl::MakeSpan(values)));
    }
  }
  return absl::OkStatus();
}

// Adds what one more rank holds.
absl::Status Merge(Tensors& tensors, const Tensors& other) {
  for (const auto& [name, values] : other) {
    std::vector<float>& whole = tensors.try_emplace(name, values.size(), kNotHeld).first->second;
    for (size_t i = 0; i < values.size(); ++i) {
      if (SameBits(values[i], kNotHeld) || SameBits(values[i], whole[i])) continue;
      if (!SameBits(whole[i], kNotHeld))
        return absl::InternalError(absl::StrCat("holders of ", name, " differ"));
      whole[i] = values[i];
    }
  }
  return absl::OkStatus();
}

absl::Status Merge(TrainingRun& run, const TrainingRun& other) {
  if (other.losses != run.losses) return absl::InternalError("ranks report different losses");
  for (const auto& [part, tensors] : kParts) RETURN_IF_ERROR(Merge(run.*tensors, other.*tensors));
  return absl::OkStatus();
}

}  // namespace

double Difference(const Tensors& a, const Tensors& b, Over over) {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  if (a.size() != b.size()) return kInfinite;
  double worst = 0, largest = 0, largest_difference = 0;
  for (const auto& [name, values] : a) {
    const auto found = b.find(name);
    if (found == b.end() || found->second.size() != values.size()) return kInfinite;
    if (over == Over::kEach) largest = largest_difference = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      const double one = values[i], other = found->second[i];
      if (!std::isfinite(one) || !std::isfinite(other)) return kInfinite;
      largest = std::max(largest, std::abs(other));
      largest_difference = std::max(largest_difference, std::abs(one - other));
    }
    if (largest_difference > 0) worst = std::max(worst, largest_difference / largest);
  }
  return over == Over::kEach ? worst : largest_difference > 0 ? largest_difference / largest : 0;
}

absl::StatusOr<Device> OpenMixed(int rank) {
  const Backend backend = rank % 2 == 0 ? ReferenceBackend() : SkeletonBackend();
  return backend.open({.name = "test", .backend = backend.name, .cores = {0}, .memory_limit = GiB(1)});
}

absl::StatusOr<TrainingRun> TrainUnderPlan(const TrainingSpec& spec, const Plan& plan,
                                           const WindowFactory& windows, const StartFunction& start,
                                           const DeviceOpener& open) {
  const int ranks = RankCount(plan);
  LoopbackFabric fabric(ranks);
  std::vector<TrainingRun> runs(ranks);
  std::vector<absl::Status> statuses(ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      const std::unique_ptr<Transport> transport =
          fabric.Join(rank, PlanPeers(plan, CompileStep(plan, rank, spec.shape, Purpose::kTrain), spec, {}));
      const std::unique_ptr<WindowSource> source = windows();
      statuses[rank] = TrainRank(spec, plan, rank, *transport, *source, start,
                                 open ? open : DeviceOpener(OpenReference), runs[rank]);
      if (!statuses[rank].ok()) fabric.MarkGone(rank);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int rank = 0; rank < ranks; ++rank) {
    if (!statuses[rank].ok()) return Annotate(statuses[rank], absl::StrCat("rank ", rank));
  }
  for (int rank = 1; rank < ranks; ++rank) RETURN_IF_ERROR(Merge(runs[0], runs[rank]));
  return std::move(runs[0]);
}

Plan SingleDevicePlan(const TrainingShape& shape, int micro_batch) {
  return {.units = {{.devices = {"test/0"}, .chunks = {{0, shape.model.blocks()}}}},
          .routes = {{.units = {0},
                      .micro_batches = shape.global_batch_sequences / micro_batch,
                      .micro_batch_sequences = micro_batch}}};
}

namespace {

// Has `route` take `sequences`, in micro-batches of a size of its own.
void SplitAtRandom(Route& route, int sequences, std::mt19937_64& random) {
  std::vector<int> divisors;
  for (int b = 1; b <= sequences; ++b) {
    if (sequences % b == 0) divisors.push_back(b);
  }
  route.micro_batch_sequences = divisors[random() % divisors.size()];
  route.micro_batches = sequences / route.micro_batch_sequences;
}

}  // namespace

Plan RandomPlan(uint64_t seed, const TrainingShape& shape, int max_devices) {
  std::mt19937_64 random(seed);
  const auto draw = [&](int low, int high) { return low + static_cast<int>(random() % (high - low + 1)); };
  Plan plan{.schedule = static_cast<Schedule>(draw(0, kSchedules - 1))};
  int left = shape.global_batch_sequences;
  int devices = draw(1, max_devices);
  while (devices > 0) {
    const bool last = devices == 1 || left == 1 || draw(0, 2) == 0;
    const int stages = std::min(last ? devices : draw(1, devices - 1), shape.model.blocks());
    const int sequences = last ? left : draw(1, left - 1);
    Route route;
    SplitAtRandom(route, sequences, random);
    std::vector<int> cuts = {0, shape.model.blocks()};
    while (static_cast<int>(cuts.size()) < stages + 1) {
      const int cut = draw(1, shape.model.blocks() - 1);
      if (std::find(cuts.begin(), cuts.end(), cut) == cuts.end()) cuts.push_back(cut);
    }
    std::sort(cuts.begin(), cuts.end());
    for (int s = 0; s < stages; ++s) {
      route.units.push_back(static_cast<int>(plan.units.size()));
      plan.units.push_back(
          {.devices = {absl::StrCat("test/", plan.units.size())}, .chunks = {{cuts[s], cuts[s + 1]}}});
      if (draw(0, 2) == 0) plan.units.back().recompute = static_cast<Recompute>(draw(0, kRecomputes - 1));
    }
    left -= sequences;
    devices -= stages;
    plan.routes.push_back(std::move(route));
    if (last) break;
  }
  RecomputeFewerLayers(plan, shape.model, seed);
  if (plan.schedule == Schedule::kListed) ListRandomOrders(plan, seed);
  if (seed % 3 == 0) ShardOptimizer(plan, shape.model, seed);
  if (seed % 4 == 0) MoveLayersToHost(plan, shape.model, seed);
  if (seed % 4 == 1) MoveLayersToPeers(plan, shape.model, seed);
  if (seed % 4 < 2) MoveActivationsToHost(plan, shape.model, seed);
  return plan;
}

Plan RandomWidePlan(uint64_t seed, const TrainingShape& shape, int max_degree) {
  std::mt19937_64 random(seed);
  const auto draw = [&](int low, int high) { return low + static_cast<int>(random() % (high - low + 1)); };
  const ModelConfig& model = shape.model;
  Plan plan{.schedule = static_cast<Schedule>(draw(0, kSchedules - 1))};
  const std::vector<IndexRange> ranges = RandomCut(random, model.blocks(), draw(1, model.blocks()));
  const int units = ranges.size() == 1 ? draw(1, 2) : draw(2, 3);
  AddRandomUnits(plan, ranges, units, random);
  for (size_t u = 0; u < plan.units.size(); ++u) {
    Unit& unit = plan.units[u];
    unit.recompute = static_cast<Recompute>(draw(0, kRecomputes - 1));
    const int degree = draw(1, max_degree);
    for (int d = 0; d < degree; ++d) unit.devices.push_back(absl::StrCat("test/", u, ".", d));
    if (degree > 1 && draw(0, 2) > 0) unit.shares = RandomShares(random, model, degree);
  }
  int left = shape.global_batch_sequences;
  int after = static_cast<int>(plan.routes.size());
  for (Route& route : plan.routes) {
    --after;
    const int sequences = after == 0 ? left : draw(1, left - after);
    SplitAtRandom(route, sequences, random);
    left -= sequences;
  }
  for (Unit& unit : plan.units) {
    if (unit.devices.size() > 1) unit.sequence_parallel = draw(0, 1) == 1;
  }
  RecomputeFewerLayers(plan, model, seed);
  CutIntoPartsAtRandom(plan, seed);
  if (plan.schedule == Schedule::kListed) ListRandomOrders(plan, seed);
  if (seed % 3 == 0) ShardOptimizer(plan, shape.model, seed);
  if (seed % 4 == 0) MoveLayersToHost(plan, shape.model, seed);
  if (seed % 4 == 1) MoveLayersToPeers(plan, shape.model, seed);
  if (seed % 4 < 2) MoveActivationsToHost(plan, shape.model, seed);
  return plan;
}

Plan GoAhead(Plan plan) {
  plan.shards_optimizer = false;
  for (Unit& unit : plan.units) {
    unit.window_layers = 0;
    unit.layers_home = LayersHome::kHost;
    unit.KeepActivationsOnDevice();
  }
  plan.post_validation = true;
  return plan;
}

}  // namespace medley
