#include "runtime/exec/trainer.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <map>
#include <thread>

#include "absl/strings/str_cat.h"
#include "comm/loopback/loopback_fabric.h"
#include "kernels/reference/reference_backend.h"
#include "runtime/base/status_macros.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/data/temporary_directory.h"
#include "runtime/exec/shard_checkpoint.h"
#include "tests/same_loss/training_harness.h"

namespace medley {
namespace {

using Part = ParameterArena::Part;

TrainingSpec TwelveSteps(const std::string& directory) {
  TrainingSpec spec;
  spec.job_name = "tiny";
  spec.shape = {.model = {.layers = 2, .hidden = 16, .heads = 2, .feed_forward = 32, .vocabulary = 23, .context = 8},
                .sequence = 8, .global_batch_sequences = 8};
  spec.steps = 12;
  spec.optimizer.learning_rate = 3e-3;
  spec.optimizer.warmup_steps = 3;
  spec.seed = 5;
  spec.checkpoint_directory = directory;
  spec.checkpoint_every_steps = 4;
  spec.checkpoint_keep = 9;
  spec.validate_every_steps = 6;
  return spec;
}

struct Run {
  std::map<int64_t, double> losses, validations;
  std::vector<int64_t> checkpoints;
  std::map<std::string, std::vector<float>> state;  // parameters and moments, each as its last holder has it
};

absl::Status TrainUnit(const TrainingSpec& spec, const Plan& plan, int unit, Transport& transport, int64_t from,
                       Run& run, Mutex& mutex) {
  ASSIGN_OR_RETURN(Device device, ReferenceBackend().open({.name = "test", .backend = "reference", .cores = {0},
                                                           .memory_limit = MiB(64)}));
  const StepProgram program = CompileStep(plan, unit, spec.shape, Purpose::kTrain);
  ASSIGN_OR_RETURN(const std::unique_ptr<ModelShard> shard,
                   ModelShard::Create(device, {.shape = spec.shape, .blocks = plan.units[unit].blocks,
                                               .micro_batch_sequences = plan.micro_batch_sequences,
                                               .slots = program.slots}));
  if (from == 0) {
    RETURN_IF_ERROR(shard->arena().Initialise(spec.seed));
  } else {
    ASSIGN_OR_RETURN(const CheckpointManifest manifest, ReadManifest(CheckpointDirectory(spec.checkpoint_directory, from)));
    RETURN_IF_ERROR(LoadCheckpoint(manifest, spec, *shard));
  }
  MadeUpWindows windows(3, spec.shape.model.vocabulary);
  UnitExecutor executor({.spec = spec, .plan = plan, .unit = unit, .stall_timeout = absl::Seconds(30)}, *shard, transport,
                        windows);
  TrainerReports reports;
  if (unit == 0) {
    reports.step = [&](int64_t step, const StepOutcome& outcome) { run.losses[step] = outcome.loss; };
    reports.validation = [&](int64_t step, double loss) { run.validations[step] = loss; };
    reports.checkpoint = [&](int64_t step, const std::string&) { run.checkpoints.push_back(step); };
  }
  RETURN_IF_ERROR(Train(spec, from, *shard, executor, OwnedSegments(plan, unit, spec.shape.model), reports));
  MutexLock lock(mutex);
  for (const PlacedParameter& placed : shard->arena().layout().parameters) {
    for (const auto& [part, suffix] : {std::pair{Part::kParameter, ""}, std::pair{Part::kFirstMoment, " m"},
                                       std::pair{Part::kSecondMoment, " v"}}) {
      std::vector<float>& values = run.state[placed.spec.name + suffix];
      values.resize(placed.spec.elements);
      RETURN_IF_ERROR(shard->arena().Read(part, placed.spec.name, absl::MakeSpan(values)));
    }
  }
  return absl::OkStatus();
}

// By unit.
std::vector<absl::Status> TrainUnits(const std::vector<TrainingSpec>& specs, const Plan& plan, int64_t from, Run& run) {
  const int units = static_cast<int>(plan.units.size());
  LoopbackFabric fabric(units);
  std::vector<absl::Status> statuses(units);
  std::vector<std::thread> threads;
  Mutex mutex;
  for (int unit = 0; unit < units; ++unit) {
    threads.emplace_back([&, unit] {
      const std::unique_ptr<Transport> transport = fabric.Join(unit);
      statuses[unit] = TrainUnit(specs[unit], plan, unit, *transport, from, run, mutex);
      if (!statuses[unit].ok()) fabric.MarkGone(unit);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return statuses;
}

Run TrainFrom(const TrainingSpec& spec, const Plan& plan, int64_t from) {
  Run run;
  const std::vector<TrainingSpec> specs(plan.units.size(), spec);
  for (const absl::Status& status : TrainUnits(specs, plan, from, run)) {
    INFO(status.ToString());
    REQUIRE(status.ok());
  }
  return run;
}

double LargestDifference(const Run& a, const Run& b) {
  double largest = 0;
  for (const auto& [name, values] : a.state) {
    double scale = 1e-12, difference = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      scale = std::max<double>(scale, std::abs(values[i]));
      difference = std::max<double>(difference, std::abs(values[i] - b.state.at(name)[i]));
    }
    largest = std::max(largest, difference / scale);
  }
  return largest;
}

TEST_CASE("training reports each step, validates and saves when the job says, and saves its last step") {
  const TemporaryDirectory directory;
  TrainingSpec spec = TwelveSteps(directory.File("job"));
  spec.steps = 10;
  const Run run = TrainFrom(spec, RandomPlan(4, spec.shape, 3), 0);
  CHECK(run.losses.size() == 10);
  CHECK(run.checkpoints == std::vector<int64_t>{4, 8, 10});
  REQUIRE(run.validations.size() == 2);
  CHECK(run.validations.count(6) == 1);
  CHECK(run.validations.count(10) == 1);
  CHECK(LatestCheckpoint(spec.checkpoint_directory)->latest->step == 10);
}

TEST_CASE("only as many checkpoints stay as the job keeps") {
  const TemporaryDirectory directory;
  TrainingSpec spec = TwelveSteps(directory.File("job"));
  spec.checkpoint_every_steps = 2;
  spec.checkpoint_keep = 2;
  (void)TrainFrom(spec, SingleDevicePlan(spec.shape, 4), 0);
  CHECK(std::filesystem::exists(CheckpointDirectory(spec.checkpoint_directory, 12)));
  CHECK(std::filesystem::exists(CheckpointDirectory(spec.checkpoint_directory, 10)));
  CHECK_FALSE(std::filesystem::exists(CheckpointDirectory(spec.checkpoint_directory, 8)));
}

TEST_CASE("a job resumed under the same plan is the undisturbed one, bit for bit") {
  const uint64_t seed = GENERATE(range(uint64_t{1}, uint64_t{5}));
  const TemporaryDirectory directory;
  const TrainingSpec spec = TwelveSteps(directory.File("job"));
  const Plan plan = RandomPlan(seed, spec.shape, 4);
  CAPTURE(seed, Describe(plan));
  const Run whole = TrainFrom(spec, plan, 0);
  const Run rest = TrainFrom(spec, plan, 8);
  REQUIRE(rest.losses.size() == 4);
  for (const auto& [step, loss] : rest.losses) CHECK(loss == whole.losses.at(step));
  CHECK(rest.validations.at(12) == whole.validations.at(12));
  CHECK(rest.state == whole.state);
}

TEST_CASE("a checkpoint of one plan resumes under any other and goes on as if nothing had happened", "[property]") {
  const uint64_t seed = GENERATE(range(uint64_t{1}, uint64_t{16}));
  const TemporaryDirectory directory;
  const TrainingSpec spec = TwelveSteps(directory.File("job"));
  const Plan before = RandomPlan(seed, spec.shape, 4), after = RandomPlan(seed + 1000, spec.shape, 4);
  CAPTURE(seed, Describe(before), Describe(after));
  const Run whole = TrainFrom(spec, before, 0);
  const Run rest = TrainFrom(spec, after, 8);
  for (const auto& [step, loss] : rest.losses) CHECK(loss == Approx(whole.losses.at(step)).epsilon(1e-5));
  CHECK(rest.validations.at(12) == Approx(whole.validations.at(12)).epsilon(1e-5));
  CHECK(rest.state.size() == whole.state.size());
  CHECK(LargestDifference(rest, whole) < 1e-3);
}

TEST_CASE("a checkpoint of another training is refused, and the field is named") {
  const TemporaryDirectory directory;
  const TrainingSpec spec = TwelveSteps(directory.File("job"));
  (void)TrainFrom(spec, SingleDevicePlan(spec.shape, 8), 0);
  const CheckpointManifest manifest = *ReadManifest(CheckpointDirectory(spec.checkpoint_directory, 8));
  struct Case {
    std::string field;
    std::function<void(TrainingSpec&)> change;
  };
  const auto c = GENERATE_COPY(values<Case>({
      {"model", [](TrainingSpec& s) { s.shape.model.heads = 4; }},
      {"batch.sequence_length", [](TrainingSpec& s) { s.shape.sequence = 4; }},
      {"batch.sequences", [](TrainingSpec& s) { s.shape.global_batch_sequences = 4; }},
      {"data.order", [](TrainingSpec& s) { s.data_order = DataOrder::kShuffled; }},
      {"seed", [](TrainingSpec& s) { s.seed = 6; }},
  }));
  CAPTURE(c.field);
  TrainingSpec other = spec;
  c.change(other);
  Device device = *ReferenceBackend().open({.name = "test", .backend = "reference", .cores = {0}, .memory_limit = MiB(64)});
  const auto shard = ModelShard::Create(device, {.shape = other.shape, .blocks = {0, 4}, .slots = {.stash = 1}});
  REQUIRE(shard.ok());
  const absl::Status refused = LoadCheckpoint(manifest, other, **shard);
  CHECK(absl::IsFailedPrecondition(refused));
  CHECK_THAT(std::string(refused.message()), Catch::Contains("another " + c.field + " "));
}

TEST_CASE("when one unit cannot write its part, all units fail and there is no checkpoint") {
  const TemporaryDirectory directory;
  const TrainingSpec spec = TwelveSteps(directory.File("job"));
  const Plan plan{.micro_batch_sequences = 4,
                  .units = {{.device = "test/0", .blocks = {0, 2}}, {.device = "test/1", .blocks = {2, 4}}},
                  .routes = {{.units = {0, 1}, .micro_batches = 2}}};
  const int culprit = GENERATE(0, 1);
  CAPTURE(culprit);
  std::vector<TrainingSpec> specs(2, spec);
  specs[culprit].checkpoint_directory = directory.Write("a file", "") + "/job";  // no directory can be made there
  Run run;
  const std::vector<absl::Status> statuses = TrainUnits(specs, plan, 0, run);
  for (const absl::Status& status : statuses) {
    CHECK_FALSE(status.ok());
    CHECK_THAT(std::string(status.message()), Catch::Contains("checkpoint of step 4"));
  }
  CHECK_THAT(std::string(statuses[culprit].message()), Catch::Contains("a file"));
  CHECK(absl::IsAborted(statuses[1 - culprit]));
  CHECK_FALSE(LatestCheckpoint(spec.checkpoint_directory)->latest.has_value());
  CHECK(run.checkpoints.empty());
}

}  // namespace
}  // namespace medley
