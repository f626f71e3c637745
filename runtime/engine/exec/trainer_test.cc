#include "runtime/engine/exec/trainer.h"

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>
#include <thread>

#include "absl/strings/str_cat.h"
#include "comm/loopback/loopback_fabric.h"
#include "kernels/reference/reference_backend.h"
#include "runtime/base/files/scarce_disk.h"
#include "runtime/base/files/temporary_directory.h"
#include "runtime/base/status_macros.h"
#include "runtime/engine/checkpoint/checkpoint.h"
#include "runtime/engine/exec/plan_peers.h"
#include "runtime/engine/exec/shard_checkpoint.h"
#include "tests/same_loss/training_harness.h"

namespace medley {
namespace {

using Part = ParameterArena::Part;

// An environment variable, for as long as this lives.
class ScopedEnvironment {
 public:
  ScopedEnvironment(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ScopedEnvironment(const ScopedEnvironment&) = delete;
  ScopedEnvironment& operator=(const ScopedEnvironment&) = delete;
  ~ScopedEnvironment() { unsetenv(name_); }

 private:
  const char* const name_;
};

// On the ranks' threads, where the test framework cannot be used.
void Must(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  std::abort();
}

TrainingSpec TwelveSteps(const std::string& directory) {
  TrainingSpec spec;
  spec.job_name = "tiny";
  spec.shape = {
      .model = {.layers = 2, .hidden = 16, .heads = 2, .feed_forward = 32, .vocabulary = 23, .context = 8},
      .sequence = 8,
      .global_batch_sequences = 8};
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

// What a test changes of a rank's training.
struct Changes {
  RunIdentity identity;
  absl::Duration stall_timeout = absl::Seconds(30);
  absl::Duration last_save_limit = absl::Hours(1);
  std::optional<LossScale> loss_scale;  // that training begins with
  std::function<bool()> wishes_to_finish;
  std::function<void(int64_t step, ModelShard& shard)> after_step;          // on the rank's own thread
  std::function<void(int64_t step, const std::string&)> checkpoint_failed;  // on rank 0
};

struct Run {
  std::map<int64_t, double> losses, validations;
  std::vector<int64_t> checkpoints, skipped;
  std::map<int64_t, int64_t> loss_scales;
  std::map<int64_t, std::string> failed;            // checkpoints that could not be written, and why
  std::vector<std::string> warnings;                // of rank 0
  TrainingEnd end;                                  // likewise
  std::map<std::string, std::vector<float>> state;  // parameters and moments, each as its last holder has it
};

absl::Status TrainRank(const TrainingSpec& spec, const Plan& plan, int rank, Transport& transport,
                       int64_t from, Run& run, Mutex& mutex, const Changes& changes) {
  ASSIGN_OR_RETURN(Device device,
                   ReferenceBackend().open(
                       {.name = "test", .backend = "reference", .cores = {0}, .memory_limit = MiB(64)}));
  const StepProgram program = CompileStep(plan, rank, spec.shape, Purpose::kTrain);
  ASSIGN_OR_RETURN(const std::unique_ptr<ModelShard> shard,
                   ModelShard::Create(device, ShardOptionsOf(plan, program, spec.shape, spec.precision)));
  std::optional<LossScale> loss_scale = changes.loss_scale;
  if (from == 0) {
    RETURN_IF_ERROR(shard->arena().Initialise(spec.seed));
  } else {
    ASSIGN_OR_RETURN(const CheckpointManifest manifest,
                     ReadManifest(CheckpointDirectory(spec.checkpoint_directory, from)));
    RETURN_IF_ERROR(LoadCheckpoint(manifest, spec, *shard));
    loss_scale = manifest.loss_scale;
  }
  MadeUpWindows windows(3, spec.shape.model.vocabulary);
  StepExecutor executor({.spec = spec,
                         .plan = plan,
                         .rank = rank,
                         .loss_scale = loss_scale,
                         .stall_timeout = changes.stall_timeout,
                         .wishes_to_finish = changes.wishes_to_finish},
                        *shard, transport, windows);
  TrainerReports reports;
  reports.step = [&](int64_t step, const StepOutcome& outcome) {
    if (rank == 0) run.losses[step] = outcome.loss;
    if (rank == 0 && outcome.skipped) run.skipped.push_back(step);
    if (rank == 0) run.loss_scales[step] = outcome.loss_scale;
    if (changes.after_step) changes.after_step(step, *shard);
  };
  if (rank == 0) {
    reports.validation = [&](int64_t step, double loss) { run.validations[step] = loss; };
    reports.checkpoint = [&](int64_t step, const std::string&) { run.checkpoints.push_back(step); };
    reports.checkpoint_failed = [&](int64_t step, const std::string& reason) {
      run.failed[step] = reason;
      if (changes.checkpoint_failed) changes.checkpoint_failed(step, reason);
    };
    reports.warning = [&](const std::string& text) { run.warnings.push_back(text); };
  }
  ASSIGN_OR_RETURN(const TrainingEnd end, Train({.spec = spec,
                                                 .identity = changes.identity,
                                                 .done_steps = from,
                                                 .last_save_limit = changes.last_save_limit,
                                                 .first_pause = absl::Milliseconds(1)},
                                                *shard, executor, reports));
  if (rank == 0) run.end = end;
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

// By rank.
std::vector<absl::Status> TrainRanks(const std::vector<TrainingSpec>& specs, const Plan& plan, int64_t from,
                                     Run& run, const Changes& changes = {}) {
  const int ranks = RankCount(plan);
  LoopbackFabric fabric(ranks);
  std::vector<absl::Status> statuses(ranks);
  std::vector<std::thread> threads;
  Mutex mutex;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      const std::unique_ptr<Transport> transport = fabric.Join(
          rank,
          PlanPeers(plan, CompileStep(plan, rank, specs[rank].shape, Purpose::kTrain), specs[rank], {}));
      statuses[rank] = TrainRank(specs[rank], plan, rank, *transport, from, run, mutex, changes);
      if (!statuses[rank].ok()) fabric.MarkGone(rank);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return statuses;
}

Run TrainFrom(const TrainingSpec& spec, const Plan& plan, int64_t from, const Changes& changes = {}) {
  Run run;
  const std::vector<TrainingSpec> specs(plan.units.size(), spec);
  for (const absl::Status& status : TrainRanks(specs, plan, from, run, changes)) {
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
  const CheckpointManifest last = *LatestCheckpoint(spec.checkpoint_directory)->latest;
  CHECK(last.step == 10);
  REQUIRE(last.steps.size() == 10);
  for (size_t i = 0; i < last.steps.size(); ++i) {
    CHECK(last.steps[i].step == static_cast<int64_t>(i) + 1);
    CHECK(last.steps[i].loss == run.losses.at(last.steps[i].step));
  }
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

TEST_CASE(
    "what owners alone have updated is whole where validation, a checkpoint or a wish to finish comes") {
  const TemporaryDirectory directory;
  TrainingSpec spec = TwelveSteps(directory.File("one"));
  spec.optimizer.clip_norm = 0;  // whose scale follows the order in which norms are summed
  spec.validate_every_steps = 5;
  Plan plan = {.units = {{.devices = {"n/0"}, .chunks = {{0, spec.shape.model.blocks()}}},
                         {.devices = {"n/1"}, .chunks = {{0, spec.shape.model.blocks()}}}},
               .routes = {{{0}, 2, 1}, {{1}, 6, 1}}};
  const Run whole = TrainFrom(spec, plan, 0);
  plan.shards_optimizer = true;
  plan.units[1].optimizer_weight = 3;
  spec.checkpoint_directory = directory.File("other");
  std::atomic<int64_t> done = 0;
  const Run ended = TrainFrom(spec, plan, 0,
                              {.wishes_to_finish = [&] { return done >= 2; },
                               .after_step = [&](int64_t step, ModelShard&) { done = step; }});
  REQUIRE(ended.end.stopped_at_step.has_value());
  const int64_t stopped = *ended.end.stopped_at_step;
  CHECK((stopped == 3 || stopped == 4));
  const Run rest = TrainFrom(spec, plan, stopped);
  CHECK(rest.losses.size() == static_cast<size_t>(12 - stopped));
  for (const auto& [step, loss] : rest.losses) CHECK(loss == whole.losses.at(step));
  CHECK(rest.validations == whole.validations);
  const Run last = TrainFrom(spec, plan, 8);
  for (const auto& [name, values] : whole.state) {
    if (name.ends_with(" m") || name.ends_with(" v")) continue;
    CAPTURE(name);
    CHECK(rest.state.at(name) == values);
    CHECK(last.state.at(name) == values);
  }
}

TEST_CASE("a checkpoint of one plan resumes under any other and goes on as if nothing had happened",
          "[property]") {
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
  Device device = *ReferenceBackend().open(
      {.name = "test", .backend = "reference", .cores = {0}, .memory_limit = MiB(64)});
  const auto shard =
      ModelShard::Create(device, {.shape = other.shape, .chunks = {{0, 4}}, .buffers = {.stash = {1}}});
  REQUIRE(shard.ok());
  const absl::Status refused = LoadCheckpoint(manifest, other, **shard);
  CHECK(absl::IsFailedPrecondition(refused));
  CHECK_THAT(std::string(refused.message()), Catch::Contains("another " + c.field + " "));
}

Plan TwoStages() {
  return {.units = {{.devices = {"test/0"}, .chunks = {{0, 2}}}, {.devices = {"test/1"}, .chunks = {{2, 4}}}},
          .routes = {{.units = {0, 1}, .micro_batches = 2, .micro_batch_sequences = 4}}};
}

// Both ranks hold the whole model.
Plan TwoReplicas() {
  return {.units = {{.devices = {"test/0"}, .chunks = {{0, 4}}}, {.devices = {"test/1"}, .chunks = {{0, 4}}}},
          .routes = {{.units = {0}, .micro_batches = 1, .micro_batch_sequences = 4},
                     {.units = {1}, .micro_batches = 1, .micro_batch_sequences = 4}}};
}

std::vector<std::string> NamesIn(const std::string& directory) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(directory))
    names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

TEST_CASE(
    "a checkpoint that one rank cannot write is told with the rank and the cause, and training goes on") {
  const TemporaryDirectory directory;
  TrainingSpec spec = TwelveSteps(directory.File("job"));
  const int culprit = GENERATE(0, 1);
  CAPTURE(culprit);
  std::vector<TrainingSpec> specs(2, spec);
  const std::string file = directory.Write("a file", "");
  // No directory can be made there, until the second failure.
  specs[culprit].checkpoint_directory = file + "/job";
  Run run;
  const Changes changes{.checkpoint_failed = [&](int64_t step, const std::string&) {
    if (step < 5) return;
    std::filesystem::create_directory(directory.File("job"));
    std::filesystem::remove(file);
    std::filesystem::create_directory(file);
    std::filesystem::create_directory_symlink(directory.File("job"), file + "/job");
  }};
  for (const absl::Status& status : TrainRanks(specs, TwoStages(), 0, run, changes))
    CHECK(status.ToString() == "OK");
  CHECK(run.losses.size() == 12);
  // Tried again after each step: a tenth of four is less than one.
  REQUIRE(run.failed.size() == 2);
  for (const int64_t step : {4, 5}) {
    CAPTURE(step);
    REQUIRE(run.failed.count(step) == 1);
    CHECK_THAT(run.failed[step], Catch::Contains(absl::StrCat("rank ", culprit, " (test/", culprit, "): ")));
    CHECK_THAT(run.failed[step], Catch::Contains("a file"));
  }
  CHECK(run.checkpoints == std::vector<int64_t>{6, 8, 12});
  CHECK(NamesIn(directory.File("job")) ==
        std::vector<std::string>{"step-00000006", "step-00000008", "step-00000012"});
}

TEST_CASE("a full disk costs no step, leaves nothing half-written and keeps the last good checkpoint") {
  const TemporaryDirectory directory;
  TrainingSpec spec = TwelveSteps(directory.File("job"));
  spec.checkpoint_keep = 1;
  std::unique_ptr<FileSizeLimit> full;  // of the whole process
  std::vector<std::string> left;
  Run run;
  const Changes changes{.after_step =
                            [&](int64_t step, ModelShard&) {
                              if (step == 6) full = std::make_unique<FileSizeLimit>(2000);
                            },
                        .checkpoint_failed =
                            [&](int64_t step, const std::string&) {
                              left = NamesIn(spec.checkpoint_directory);
                              if (step == 9) full.reset();
                            }};
  const std::vector<absl::Status> statuses =
      TrainRanks({spec}, SingleDevicePlan(spec.shape, 4), 0, run, changes);
  CHECK(statuses[0].ToString() == "OK");
  CHECK(run.losses.size() == 12);
  REQUIRE(run.failed.size() == 2);
  CHECK_THAT(run.failed.at(8), Catch::Contains("rank 0 (test/0): write ") && Catch::Contains("segment-0000"));
  CHECK(run.failed.count(9) == 1);
  CHECK(left == std::vector<std::string>{"step-00000004"});
  CHECK(run.checkpoints == std::vector<int64_t>{4, 10, 12});
}

TEST_CASE("the last checkpoint is tried again until it can be written, or for as long as is allowed") {
  const TemporaryDirectory directory;
  TrainingSpec spec = TwelveSteps(directory.File("job"));
  spec.checkpoint_every_steps = 100;
  const std::string file = directory.Write("file", "");
  std::vector<TrainingSpec> specs(2, spec);
  specs[1].checkpoint_directory = file + "/job";
  Run run;
  int failures = 0;
  Changes changes;
  SECTION("it can be written at last") {
    changes.checkpoint_failed = [&](int64_t, const std::string&) {
      if (++failures < 3) return;
      std::filesystem::remove(file);
      std::filesystem::create_directory(file);
      std::filesystem::create_directories(directory.File("job"));
      std::filesystem::create_directory_symlink(directory.File("job"), file + "/job");
    };
    for (const absl::Status& status : TrainRanks(specs, TwoStages(), 0, run, changes))
      CHECK(status.ToString() == "OK");
    CHECK(failures == 3);
    CHECK(run.checkpoints == std::vector<int64_t>{12});
  }
  SECTION("the time is over") {
    changes.last_save_limit = absl::ZeroDuration();
    for (const absl::Status& status : TrainRanks(specs, TwoStages(), 0, run, changes)) {
      CHECK_FALSE(status.ok());
      CHECK_THAT(std::string(status.message()), Catch::Contains("checkpoint of step 12: rank 1 (test/1): "));
      CHECK_THAT(std::string(status.message()), Catch::Contains(file));
    }
    CHECK(run.checkpoints.empty());
    CHECK_FALSE(std::filesystem::exists(CheckpointDirectory(directory.File("job"), 12)));
  }
}

TEST_CASE("a writer that takes longer than a wait for a peer may does not fail the job") {
  const TemporaryDirectory directory;
  TrainingSpec spec = TwelveSteps(directory.File("job"));
  spec.steps = 2;
  spec.checkpoint_every_steps = 100;
  spec.validate_every_steps = 0;
  const Plan plan = GENERATE(TwoStages(), TwoReplicas());
  // About 25 KiB a rank, which take five times as long as a wait in a step may.
  const ScopedEnvironment pace("MEDLEY_CHECKPOINT_BYTES_PER_SECOND", "2500");
  const Run run = TrainFrom(spec, plan, 0, {.stall_timeout = absl::Seconds(2)});
  CHECK(run.checkpoints == std::vector<int64_t>{2});
}

TEST_CASE(
    "a wish to finish of any rank ends all at one step with a checkpoint, from which training goes on") {
  const TemporaryDirectory directory;
  TrainingSpec spec = TwelveSteps(directory.File("job"));
  spec.checkpoint_every_steps = 100;
  const Plan plan = RandomPlan(GENERATE(range(uint64_t{1}, uint64_t{5})), spec.shape, 4);
  CAPTURE(Describe(plan));
  const Run whole = TrainFrom(spec, plan, 0);
  std::filesystem::remove_all(spec.checkpoint_directory);
  // The wish of whichever rank comes to the end of step 4 first: all learn it with the scalars of step 5.
  std::atomic<bool> wished = false;
  const Run first =
      TrainFrom(spec, plan, 0,
                {.wishes_to_finish = [&] { return wished.load(); },
                 .after_step = [&](int64_t step, ModelShard&) { wished = wished || step == 4; }});
  REQUIRE(first.end.stopped_at_step.has_value());
  const int64_t stopped = *first.end.stopped_at_step;
  CHECK(stopped == 5);
  CHECK(first.losses.size() == static_cast<size_t>(stopped));
  CHECK(first.checkpoints == std::vector<int64_t>{stopped});
  const Run rest = TrainFrom(spec, plan, stopped);
  CHECK_FALSE(rest.end.stopped_at_step.has_value());
  for (const auto& [step, loss] : rest.losses) CHECK(loss == whole.losses.at(step));
  CHECK(rest.state == whole.state);
}

TEST_CASE("after a save that failed a wish to finish is tried at once, and then when it is due") {
  const TemporaryDirectory directory;
  const std::string file = directory.Write("a file", "");
  TrainingSpec spec = TwelveSteps(file + "/job");  // cannot be made until the file is gone
  spec.steps = 40;
  spec.checkpoint_every_steps = 30;
  spec.validate_every_steps = 0;
  const bool fails_again = GENERATE(false, true);
  CAPTURE(fails_again);
  bool wished = false;
  Run run;
  const Changes changes{.wishes_to_finish = [&] { return wished; },
                        .after_step =
                            [&](int64_t step, ModelShard&) {
                              if (step == 30) wished = true;  // which counts from step 31 on
                              if (step == 31 && !fails_again) std::filesystem::remove(file);
                            },
                        .checkpoint_failed =
                            [&](int64_t step, const std::string&) {
                              if (step == 31) std::filesystem::remove(file);
                            }};
  const std::vector<absl::Status> statuses =
      TrainRanks({spec}, SingleDevicePlan(spec.shape, 4), 0, run, changes);
  CHECK(statuses[0].ToString() == "OK");
  CHECK(run.failed.count(30) == 1);
  CHECK(run.failed.count(31) == (fails_again ? 1 : 0));
  CHECK(run.failed.size() == (fails_again ? 2 : 1));
  const int64_t stopped = fails_again ? 34 : 31;
  CHECK(run.checkpoints == std::vector<int64_t>{stopped});
  CHECK(run.end.stopped_at_step == stopped);
}

TEST_CASE("a wish to finish of a job without checkpoints is passed over with a warning") {
  TrainingSpec spec = TwelveSteps("");
  const Run run =
      TrainFrom(spec, SingleDevicePlan(spec.shape, 4), 0, {.wishes_to_finish = [] { return true; }});
  CHECK(run.losses.size() == 12);
  CHECK_FALSE(run.end.stopped_at_step.has_value());
  REQUIRE(run.warnings.size() == 1);
  CHECK_THAT(run.warnings[0], Catch::Contains("no checkpoint.directory"));
}

TEST_CASE("a launch that another has superseded ends and harms nothing") {
  const TemporaryDirectory directory;
  const TrainingSpec spec = TwelveSteps(directory.File("job"));
  const RunOwner old{.run = "r", .job = "tiny-1", .launch = 1}, now{.run = "r", .job = "tiny-1", .launch = 2};
  REQUIRE(ClaimFolder(spec.checkpoint_directory, old).ok());
  Run run;
  const std::vector<TrainingSpec> specs(2, spec);
  const std::vector<absl::Status> statuses =
      TrainRanks(specs, TwoReplicas(), 0, run,
                 {.identity = {.owner = old}, .after_step = [&](int64_t step, ModelShard&) {
                    if (step == 6) Must(ClaimFolder(spec.checkpoint_directory, now));
                  }});
  for (const absl::Status& status : statuses) {
    CHECK(absl::IsAborted(status));
    CHECK_THAT(std::string(status.message()),
               Catch::Contains("checkpoint of step 8") && Catch::Contains("superseded by launch 2"));
  }
  CHECK(NamesIn(spec.checkpoint_directory) == std::vector<std::string>{"run.json", "step-00000004"});
  CHECK(ReadManifest(CheckpointDirectory(spec.checkpoint_directory, 4))->launch == 1);
}

TEST_CASE("a checkpoint says which run, spec and data it is of") {
  const TemporaryDirectory directory;
  const TrainingSpec spec = TwelveSteps(directory.File("job"));
  (void)TrainFrom(spec, TwoStages(), 0,
                  {.identity = {.owner = {.run = "r", .job = "tiny-1", .launch = 3},
                                .spec_fingerprint = "f00d",
                                .data_fingerprint = "train 5 bytes hash 00"}});
  const absl::StatusOr<CheckpointManifest> manifest =
      ReadManifest(CheckpointDirectory(spec.checkpoint_directory, 12));
  REQUIRE(manifest.ok());
  CHECK(manifest->run == "r");
  CHECK(manifest->launch == 3);
  CHECK(manifest->spec == "f00d");
  CHECK(manifest->data_fingerprint == "train 5 bytes hash 00");
}

TEST_CASE("a checkpoint with a damaged or missing file is DataLoss that names the checkpoint") {
  const TemporaryDirectory directory;
  const TrainingSpec spec = TwelveSteps(directory.File("job"));
  (void)TrainFrom(spec, SingleDevicePlan(spec.shape, 8), 0);
  const CheckpointManifest manifest = *ReadManifest(CheckpointDirectory(spec.checkpoint_directory, 8));
  const std::string file = manifest.directory + "/segment-00002.safetensors";
  if (GENERATE(true, false)) {
    std::filesystem::resize_file(file, 100);
  } else {
    std::filesystem::remove(file);
  }
  Device device = *ReferenceBackend().open(
      {.name = "test", .backend = "reference", .cores = {0}, .memory_limit = MiB(64)});
  const auto shard =
      ModelShard::Create(device, {.shape = spec.shape, .chunks = {{0, 4}}, .buffers = {.stash = {1}}});
  REQUIRE(shard.ok());
  const absl::Status status = LoadCheckpoint(manifest, spec, **shard);
  CHECK(absl::IsDataLoss(status));
  CHECK_THAT(std::string(status.message()),
             Catch::Contains("checkpoint " + manifest.directory + ": ") && Catch::Contains("segment-00002"));
}

// Poisons the last norm's bias after step 3 on whoever holds it, and cures it after step `until`.
std::function<void(int64_t, ModelShard&)> Poison(int64_t until) {
  struct Kept {
    Mutex mutex;
    std::map<const ModelShard*, std::vector<float>> bias;  // of each rank's shard
  };
  return [until, kept = std::make_shared<Kept>()](int64_t step, ModelShard& shard) {
    const PlacedParameter* const bias = shard.arena().layout().Find("ln_f.bias");
    if (bias == nullptr) return;
    MutexLock lock(kept->mutex);
    std::vector<float>& good = kept->bias[&shard];
    if (step == 3) {
      good.resize(bias->spec.elements);
      Must(shard.arena().Read(Part::kParameter, "ln_f.bias", absl::MakeSpan(good)));
      Must(
          shard.arena().Write(Part::kParameter, "ln_f.bias", std::vector<float>(good.size(), std::nanf(""))));
    }
    if (step == until) Must(shard.arena().Write(Part::kParameter, "ln_f.bias", good));
  };
}

TEST_CASE(
    "a step whose loss is not finite updates nothing on any rank and training goes on, where the job says "
    "so") {
  TrainingSpec spec = TwelveSteps("");
  spec.steps = 5;
  spec.validate_every_steps = 0;
  const Plan plan = GENERATE(TwoStages(), TwoReplicas());
  const Run before = TrainFrom(spec, plan, 0);
  spec.optimizer.skip_non_finite = 2;
  std::map<std::string, std::vector<float>> at_three;
  Mutex mutex;
  const auto poison = Poison(5);
  const Run run =
      TrainFrom(spec, plan, 0, {.after_step = [&](int64_t step, ModelShard& shard) {
                  if (step == 3) {
                    MutexLock lock(mutex);
                    for (const PlacedParameter& placed : shard.arena().layout().parameters) {
                      std::vector<float>& values = at_three[placed.spec.name];
                      values.resize(placed.spec.elements);
                      Must(shard.arena().Read(Part::kParameter, placed.spec.name, absl::MakeSpan(values)));
                    }
                  }
                  poison(step, shard);
                }});
  CHECK(run.skipped == std::vector<int64_t>{4, 5});
  for (int64_t step = 1; step <= 3; ++step) CHECK(run.losses.at(step) == before.losses.at(step));
  for (const auto& [name, values] : at_three) {
    CAPTURE(name);
    CHECK(run.state.at(name) == values);
  }
}

Plan StoringF16(Plan plan) {
  for (Unit& unit : plan.units) unit.activations = Dtype::kF16;
  return plan;
}

TEST_CASE(
    "a loss scale that is too large halves until the gradients are finite, and no step but those is lost") {
  const TemporaryDirectory directory;
  TrainingSpec spec = TwelveSteps(directory.File("job"));
  spec.precision = Precision::kF16;
  const Plan plan = StoringF16(GENERATE(TwoStages(), TwoReplicas()));
  CAPTURE(Describe(plan));
  const Run run = TrainFrom(spec, plan, 0, {.loss_scale = LossScale{.factor = LossScale::kMost}});
  REQUIRE(!run.skipped.empty());
  const int64_t lost = static_cast<int64_t>(run.skipped.size());
  REQUIRE(lost < 7);
  for (int64_t step = 1; step <= 12; ++step) {
    CAPTURE(step);
    CHECK((step <= lost) == (std::count(run.skipped.begin(), run.skipped.end(), step) == 1));
    CHECK(run.loss_scales.at(step) == LossScale::kMost >> std::min(step - 1, lost));
    CHECK(std::isfinite(run.losses.at(step)));
    if (step <= lost) CHECK(run.losses.at(step) == Approx(run.losses.at(1)).epsilon(0.02));
  }
  CHECK(LatestCheckpoint(spec.checkpoint_directory)->latest->loss_scale ==
        LossScale{LossScale::kMost >> lost, 12 - lost});
  const Run rest = TrainFrom(spec, plan, 8);
  CHECK(rest.loss_scales.at(9) == LossScale::kMost >> lost);
  CHECK(rest.state == run.state);
}

TEST_CASE("after a skipped step training goes on, and more in a row than are allowed fail the job") {
  TrainingSpec spec = TwelveSteps("");
  spec.validate_every_steps = 0;
  spec.optimizer.skip_non_finite = 1;
  const Run run = TrainFrom(spec, TwoStages(), 0, {.after_step = Poison(4)});
  CHECK(run.skipped == std::vector<int64_t>{4});
  CHECK(run.losses.size() == 12);
  for (int64_t step = 5; step <= 12; ++step) CHECK(std::isfinite(run.losses.at(step)));
  Run failed;
  for (const absl::Status& status :
       TrainRanks(std::vector<TrainingSpec>(2, spec), TwoStages(), 0, failed, {.after_step = Poison(5)})) {
    CHECK(absl::IsInvalidArgument(status));
    CHECK_THAT(std::string(status.message()), Catch::Contains("step 5") && Catch::Contains("not finite") &&
                                                  Catch::Contains("after 1 step in a row that was skipped"));
  }
}

}  // namespace
}  // namespace medley
