#include <catch2/catch.hpp>

#include "kernels/cuda/simulated_device.h"
#include "kernels/cuda/simulated_driver.h"
#include "kernels/cuda/simulated_nccl.h"
#include "kernels/reference/reference_backend.h"
#include "tests/same_loss/training_harness.h"

// Training on GPUs whose streams run only when somebody waits, in an order drawn at random, or of every third seed no
// further than it takes: what the executor does not order, goes wrong for some seed; what it waits for needlessly, is
// counted.
namespace medley {
namespace {

TrainingSpec TinyJob() {
  TrainingSpec spec;
  spec.shape = {
      .model = {.layers = 4, .hidden = 8, .heads = 2, .feed_forward = 16, .vocabulary = 17, .context = 6},
      .sequence = 6,
      .global_batch_sequences = 8};
  spec.steps = 4;
  spec.seed = 5;
  spec.optimizer.learning_rate = 1e-2;
  spec.optimizer.clip_norm = 0.5;
  spec.validation_batches = 1;
  return spec;
}

WindowFactory Windows(const TrainingSpec& spec) {
  return
      [vocabulary = spec.shape.model.vocabulary] { return std::make_unique<MadeUpWindows>(3, vocabulary); };
}

absl::StatusOr<TrainingRun> TrainOnGpus(const TrainingSpec& spec, const Plan& plan, uint64_t seed, bool mixed,
                                        const NcclLibrary* nccl = nullptr) {
  const CudaDriver& driver =
      simulated::Start(seed, seed % 3 == 2 ? simulated::Turns::kAsAwaited : simulated::Turns::kAtRandom);
  const auto open = [&, mixed](int rank) -> absl::StatusOr<Device> {
    if (!mixed || rank % 2 == 1) return OpenSimulatedDevice(driver, MiB(256), rank, nccl);
    return ReferenceBackend().open(
        {.name = "test", .backend = "reference", .cores = {0}, .memory_limit = GiB(1)});
  };
  return TrainUnderPlan(spec, plan, Windows(spec), nullptr, open);
}

void CheckSame(const TrainingRun& single, const TrainingRun& run) {
  for (size_t i = 0; i < single.losses.size(); ++i) {
    CAPTURE(i);
    CHECK(run.losses[i] == Approx(single.losses[i]).epsilon(1e-5));
    CHECK(run.gradient_norms[i] == Approx(single.gradient_norms[i]).epsilon(1e-4));
  }
  CHECK(run.validation_loss == Approx(single.validation_loss).epsilon(1e-5));
  for (const auto& [name, values] : single.parameters) {
    CAPTURE(name);
    const std::vector<float>& others = run.parameters.at(name);
    for (size_t i = 0; i < values.size(); ++i) CHECK(std::abs(values[i] - others[i]) < 1e-4);
  }
}

TEST_CASE(
    "GPUs train as the reference does, whatever order their streams take, alone and among others, summing "
    "on the host or among themselves",
    "[property]") {
  const TrainingSpec spec = TinyJob();
  const absl::StatusOr<TrainingRun> single =
      TrainUnderPlan(spec, SingleDevicePlan(spec.shape, 2), Windows(spec));
  REQUIRE(single.ok());
  int sums = 0;
  for (uint64_t seed = 0; seed < 24; ++seed) {
    const Plan plan = RandomPlan(300 + seed, spec.shape, 4);
    CAPTURE(seed, Describe(plan));
    for (const bool by_nccl : {false, true}) {
      CAPTURE(by_nccl);
      const absl::StatusOr<TrainingRun> run =
          TrainOnGpus(spec, plan, seed, seed % 2 == 0, by_nccl ? &simulated::StartNccl() : nullptr);
      INFO(run.status().ToString());
      REQUIRE(run.ok());
      CheckSame(*single, *run);
    }
    sums += simulated::Submitted().all_reduces;
    CHECK(simulated::LiveCommunicators() == 0);
  }
  CHECK(sums > 100);
}

// With four heads, which up to four ranks can share, and a number of rows that no three of them cut evenly.
TrainingSpec WideJob() {
  TrainingSpec spec = TinyJob();
  spec.shape.model.hidden = 16;
  spec.shape.model.heads = 4;
  spec.shape.sequence = 5;
  return spec;
}

TEST_CASE(
    "GPUs that share layers train as the reference does, exchanging through the host or among themselves",
    "[property]") {
  const TrainingSpec spec = WideJob();
  const absl::StatusOr<TrainingRun> single =
      TrainUnderPlan(spec, SingleDevicePlan(spec.shape, 2), Windows(spec));
  REQUIRE(single.ok());
  simulated::SubmittedCalls calls;
  for (uint64_t seed = 0; seed < 24; ++seed) {
    const Plan plan = RandomWidePlan(700 + seed, spec.shape, 3);
    if (RankCount(plan) > simulated::kGpus) continue;
    CAPTURE(seed, Describe(plan));
    for (const bool by_nccl : {false, true}) {
      CAPTURE(by_nccl);
      const absl::StatusOr<TrainingRun> run =
          TrainOnGpus(spec, plan, seed, seed % 4 == 3, by_nccl ? &simulated::StartNccl() : nullptr);
      INFO(run.status().ToString());
      REQUIRE(run.ok());
      CheckSame(*single, *run);
    }
    const simulated::SubmittedCalls of_run = simulated::Submitted();
    calls.all_reduces += of_run.all_reduces;
    calls.all_gathers += of_run.all_gathers;
    calls.reduce_scatters += of_run.reduce_scatters;
    calls.broadcasts += of_run.broadcasts;
    calls.reduces += of_run.reduces;
    CHECK(simulated::LiveCommunicators() == 0);
  }
  CHECK(calls.all_reduces > 100);
  CHECK(calls.all_gathers > 100);
  CHECK(calls.reduce_scatters > 100);
  CHECK(calls.broadcasts > 100);
  CHECK(calls.reduces > 100);
}

// What a unit does with the rows of a micro-batch.
enum class Rows { kAll, kOwn, kInParts };

// One unit of the whole model, with micro-batches of two sequences.
Plan SharedUnit(const TrainingShape& shape, int degree, Rows rows) {
  Plan plan = SingleDevicePlan(shape, 2);
  plan.units[0].sequence_parallel = rows == Rows::kOwn;
  plan.units[0].exchange_parts = rows == Rows::kInParts ? 2 : 1;
  for (int d = 1; d < degree; ++d) plan.units[0].devices.push_back("test/" + std::to_string(d));
  return plan;
}

TEST_CASE("GPUs that share layers and store them narrow train as one that does, either way") {
  TrainingSpec spec = WideJob();
  const auto [precision, tolerance] =
      GENERATE(table<Precision, double>({{Precision::kBf16, 2e-3}, {Precision::kF16, 5e-4}}));
  spec.precision = precision;
  const auto stored = [&](Plan plan) {
    plan.units[0].activations = TypeOf(precision);
    return plan;
  };
  const absl::StatusOr<TrainingRun> single =
      TrainOnGpus(spec, stored(SingleDevicePlan(spec.shape, 2)), 1, false);
  REQUIRE(single.ok());
  for (const int degree : {2, 3}) {
    for (const Rows rows : {Rows::kAll, Rows::kOwn, Rows::kInParts}) {
      const Plan plan = stored(SharedUnit(spec.shape, degree, rows));
      for (const bool by_nccl : {false, true}) {
        CAPTURE(degree, static_cast<int>(rows), by_nccl);
        const absl::StatusOr<TrainingRun> run =
            TrainOnGpus(spec, plan, 1, false, by_nccl ? &simulated::StartNccl() : nullptr);
        INFO(run.status().ToString());
        REQUIRE(run.ok());
        for (size_t i = 0; i < single->losses.size(); ++i)
          CHECK(run->losses[i] == Approx(single->losses[i]).epsilon(tolerance));
        CHECK(run->validation_loss == Approx(single->validation_loss).epsilon(tolerance));
      }
    }
  }
}

TEST_CASE("a unit of GPUs whose exchange fails ends the training of all, by its library's words") {
  const TrainingSpec spec = WideJob();
  const NcclLibrary& nccl = simulated::StartNccl();
  simulated::FailSums(0);
  const absl::Status status =
      TrainOnGpus(spec, SharedUnit(spec.shape, 2, GENERATE(Rows::kAll, Rows::kInParts)), 1, false, &nccl)
          .status();
  CHECK_THAT(
      std::string(status.message()),
      Catch::Contains("exchange of ranks 0, 1 in their devices' memory: exchanging in a group of GPUs: "
                      "remote process exited: it was asked to fail"));
  CHECK(simulated::LiveCommunicators() == 0);
}

TEST_CASE("units of GPUs that cannot come together exchange through the host, to the same bits") {
  const TrainingSpec spec = WideJob();
  const Plan plan = SharedUnit(spec.shape, 3, GENERATE(Rows::kOwn, Rows::kInParts));
  const absl::StatusOr<TrainingRun> without = TrainOnGpus(spec, plan, 1, false);
  REQUIRE(without.ok());
  const NcclLibrary& nccl = simulated::StartNccl();
  simulated::FailJoining(1);
  const absl::StatusOr<TrainingRun> with = TrainOnGpus(spec, plan, 1, false, &nccl);
  REQUIRE(with.ok());
  CHECK(simulated::Submitted().broadcasts == 0);
  CHECK(with->losses == without->losses);
  CHECK(with->parameters == without->parameters);
}

// Two replicas of the whole model.
Plan Replicas(const TrainingShape& shape) {
  Plan plan;
  for (int i = 0; i < 2; ++i) {
    plan.units.push_back({.devices = {"test/" + std::to_string(i)}, .chunks = {{0, shape.model.blocks()}}});
    plan.routes.push_back(
        {.units = {i}, .micro_batches = 2, .micro_batch_sequences = shape.global_batch_sequences / 4});
  }
  return plan;
}

TEST_CASE("GPUs whose layers live on the host train with those whose layers do not, however sums are mixed",
          "[property]") {
  const TrainingSpec spec = TinyJob();
  const absl::StatusOr<TrainingRun> single =
      TrainUnderPlan(spec, SingleDevicePlan(spec.shape, 2), Windows(spec));
  REQUIRE(single.ok());
  for (uint64_t seed = 0; seed < 24; ++seed) {
    Plan plan = Replicas(spec.shape);
    plan.units[seed % 2].window_layers = 2;
    plan.units[1 - seed % 2].window_layers = seed % 3 == 0 ? 1 : 0;
    plan.shards_optimizer = seed % 4 == 3;
    CAPTURE(seed, Describe(plan));
    for (const bool by_nccl : {false, true}) {
      CAPTURE(by_nccl);
      const absl::StatusOr<TrainingRun> run =
          TrainOnGpus(spec, plan, seed, false, by_nccl ? &simulated::StartNccl() : nullptr);
      INFO(run.status().ToString());
      REQUIRE(run.ok());
      CheckSame(*single, *run);
    }
  }
}

TEST_CASE("GPUs whose activations live on the host train as the reference does, layers on the host or not",
          "[property]") {
  const TrainingSpec spec = TinyJob();
  const absl::StatusOr<TrainingRun> single =
      TrainUnderPlan(spec, SingleDevicePlan(spec.shape, 2), Windows(spec));
  REQUIRE(single.ok());
  for (uint64_t seed = 0; seed < 24; ++seed) {
    Plan plan = SingleDevicePlan(spec.shape, 1);
    plan.schedule = Schedule::kGPipe;
    if (seed % 2 == 0) {
      plan.units[0].chunks = {{0, 3}};
      plan.units.push_back({.devices = {"test/1"}, .chunks = {{3, spec.shape.model.blocks()}}});
      plan.routes[0].units = {0, 1};
    }
    for (Unit& unit : plan.units) unit.activations_home = ActivationsHome::kHost;
    plan.units[0].window_layers = static_cast<int>(seed % 3);
    CAPTURE(seed, Describe(plan));
    const absl::StatusOr<TrainingRun> run = TrainOnGpus(spec, plan, seed, false);
    INFO(run.status().ToString());
    REQUIRE(run.ok());
    CheckSame(*single, *run);
  }
}

TEST_CASE(
    "GPUs that gather what they share among themselves wait for what others hold, too, and the hosts bring "
    "them",
    "[property]") {
  TrainingSpec spec = TinyJob();
  spec.shape.model.tied_head = true;
  const absl::StatusOr<TrainingRun> single =
      TrainUnderPlan(spec, SingleDevicePlan(spec.shape, 2), Windows(spec));
  REQUIRE(single.ok());
  // Two replicas of two stages, of which those of odd ranks are on GPUs: the first ones, or the last ones.
  const auto [first, last] = GENERATE(std::pair(1, 0), std::pair(0, 1));
  Plan plan{.shards_optimizer = true};
  plan.units.resize(4);
  for (const int of_replica : {0, 2}) {
    plan.units[of_replica + first].chunks = {{0, 3}};
    plan.units[of_replica + last].chunks = {{3, spec.shape.model.blocks()}};
    plan.routes.push_back(
        {.units = {of_replica + first, of_replica + last}, .micro_batches = 2, .micro_batch_sequences = 2});
  }
  for (int u = 0; u < 4; ++u) plan.units[u].devices = {"test/" + std::to_string(u)};
  for (uint64_t seed = 0; seed < 6; ++seed) {
    CAPTURE(seed, Describe(plan));
    const absl::StatusOr<TrainingRun> run = TrainOnGpus(spec, plan, seed, true, &simulated::StartNccl());
    INFO(run.status().ToString());
    REQUIRE(run.ok());
    CheckSame(*single, *run);
    CHECK(simulated::Submitted().all_gathers > 0);
  }
}

TEST_CASE(
    "each of four GPUs that share the optimizer's state has its slice of what they sum among themselves") {
  const TrainingSpec spec = TinyJob();
  const absl::StatusOr<TrainingRun> single =
      TrainUnderPlan(spec, SingleDevicePlan(spec.shape, 2), Windows(spec));
  REQUIRE(single.ok());
  const bool even = GENERATE(true, false);
  Plan plan{.shards_optimizer = true};
  for (int u = 0; u < 4; ++u) {
    plan.units.push_back({.devices = {"test/" + std::to_string(u)},
                          .chunks = {{0, spec.shape.model.blocks()}},
                          .optimizer_weight = even ? 1 : 1 + u});
    plan.routes.push_back({.units = {u}, .micro_batches = 1, .micro_batch_sequences = 2});
  }
  for (uint64_t seed = 0; seed < 3; ++seed) {
    CAPTURE(seed, even);
    const absl::StatusOr<TrainingRun> run = TrainOnGpus(spec, plan, seed, false, &simulated::StartNccl());
    INFO(run.status().ToString());
    REQUIRE(run.ok());
    CheckSame(*single, *run);
    CHECK(simulated::Submitted().reduce_scatters + simulated::Submitted().reduces > 0);
  }
}

TEST_CASE("GPUs that cannot come together sum on the host, to the same bits as those that have no library") {
  const TrainingSpec spec = TinyJob();
  const Plan plan = Replicas(spec.shape);
  const absl::StatusOr<TrainingRun> without = TrainOnGpus(spec, plan, 1, false);
  REQUIRE(without.ok());
  const NcclLibrary& nccl = simulated::StartNccl();
  simulated::FailJoining(1);
  const absl::StatusOr<TrainingRun> with = TrainOnGpus(spec, plan, 1, false, &nccl);
  REQUIRE(with.ok());
  CHECK(simulated::Submitted().all_reduces == 0);
  CHECK(with->losses == without->losses);
  CHECK(with->parameters == without->parameters);
}

TEST_CASE("a GPU whose sum fails ends the training of all, by its library's words") {
  const TrainingSpec spec = TinyJob();
  const NcclLibrary& nccl = simulated::StartNccl();
  simulated::FailSums(0);
  const absl::Status status = TrainOnGpus(spec, Replicas(spec.shape), 1, false, &nccl).status();
  CHECK_THAT(
      std::string(status.message()),
      Catch::Contains("sum of ranks 0, 1 in their devices' memory: exchanging in a group of GPUs: remote "
                      "process exited: it was asked to fail"));
  CHECK(simulated::LiveCommunicators() == 0);
}

// The host's waits on all ranks in the steps after the first, which opens what later ones use.
int HostWaitsOfSteps(const TrainingSpec& spec, const Plan& plan, bool by_nccl = false) {
  const auto waits = [&](const TrainingSpec& of) {
    REQUIRE(TrainOnGpus(of, plan, 1, false, by_nccl ? &simulated::StartNccl() : nullptr).ok());
    return simulated::HostWaits();
  };
  TrainingSpec one = spec;
  one.steps = 1;
  const int before = waits(one);
  return waits(spec) - before;
}

TEST_CASE(
    "the host of a single GPU waits for it at the end of a step alone, however many micro-batches it has") {
  const TrainingSpec spec = TinyJob();
  const int waits = HostWaitsOfSteps(spec, SingleDevicePlan(spec.shape, 8));
  CHECK(waits == 3 * (spec.steps - 1));  // for the norms, for their download, and for the update
  CHECK(HostWaitsOfSteps(spec, SingleDevicePlan(spec.shape, 1)) == waits);
}

TEST_CASE(
    "the hosts of GPUs that share layers wait for them at the end of a step alone if a library is there") {
  const TrainingSpec spec = WideJob();
  const Plan plan = SharedUnit(spec.shape, 2, GENERATE(Rows::kAll, Rows::kOwn, Rows::kInParts));
  CHECK(HostWaitsOfSteps(spec, plan, true) == 2 * 3 * (spec.steps - 1));
  // Otherwise for each exchange of each of the four micro-batches.
  CHECK(HostWaitsOfSteps(spec, plan, false) > 2 * 4 * 4 * spec.shape.model.layers * (spec.steps - 1));
}

TEST_CASE(
    "in a pipeline of GPUs each end of a boundary waits twice a micro-batch: for what it sends, and for room "
    "to receive") {
  TrainingSpec spec = TinyJob();
  spec.shape.model.tied_head = true;
  for (const int stages : {2, 3}) {
    Plan plan;
    plan.routes.push_back({.micro_batches = 8, .micro_batch_sequences = 1});
    for (int s = 0; s < stages; ++s) {
      plan.units.push_back(
          {.devices = {"test/" + std::to_string(s)}, .chunks = {{2 * s, s + 1 == stages ? 6 : 2 * s + 2}}});
      plan.routes[0].units.push_back(s);
    }
    CAPTURE(stages);
    const int waits = HostWaitsOfSteps(spec, plan);
    // Beside those at the end of the step, and for the tied embedding, which both ends sum.
    const int ends = 2 * (stages - 1), others = 3 * stages + 2;
    CHECK(waits == (spec.steps - 1) * (2 * 8 * ends + others));
  }
}

}  // namespace
}  // namespace medley
