#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <random>

#include "absl/strings/str_cat.h"
#include "runtime/base/files/temporary_directory.h"
#include "runtime/engine/checkpoint/checkpoint.h"
#include "runtime/ir/plan/check_plan.h"
#include "tests/same_loss/interrupted_launch.h"
#include "tests/same_loss/training_harness.h"

// Jobs that are interrupted anywhere and go on from their last checkpoint, under any plan: nothing of the
// curve, the weights or the optimizer's state tells of it.
namespace medley {
namespace {

// How far a training may be from another: all relative, 0 for the same bits.
struct Tolerance {
  double losses = 0, parameters = 0, moments = 0;
};

void CheckCurve(const std::map<int64_t, double>& curve, const std::map<int64_t, double>& whole,
                double tolerance) {
  for (const auto& [step, loss] : curve) {
    CAPTURE(step, loss, whole.at(step));
    CHECK(std::abs(loss - whole.at(step)) <= tolerance * std::abs(whole.at(step)));
  }
}

// What came of all launches: interruptions are drawn, and may come after a launch's end.
struct Launches {
  int whole = 0, died = 0, ended_early = 0, resumed = 0;
};
Launches& AllLaunches() {
  static Launches launches;
  return launches;
}

// Trains `spec` from its start to its end in launches under the plans that `next_plan` gives, of which up to
// three are interrupted; each begins from the last complete checkpoint. All that they do is held against
// `whole`, the undisturbed run; with `loss_scale`, with which both begin, to its loss scales, too.
void CheckInterrupted(const TrainingSpec& spec, const std::function<Plan()>& next_plan,
                      std::mt19937_64& random, const Outcome& whole, const Tolerance& tolerance,
                      std::optional<LossScale> loss_scale = std::nullopt) {
  const auto draw = [&](int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random() % (high - low + 1));
  };
  std::string history;
  int interruptions = static_cast<int>(draw(1, 3));
  std::optional<CheckpointManifest> from;
  for (uint64_t number = 1;; ++number) {
    const int64_t done = from.has_value() ? from->step : 0;
    Launch launch{.plan = next_plan(),
                  .number = number,
                  .from = from,
                  .loss_scale = loss_scale,
                  .copies = absl::StrCat(spec.checkpoint_directory, "-copies-", number)};
    REQUIRE(CheckPlanForm(launch.plan, spec.shape).empty());
    if (interruptions-- > 0 && done < spec.steps) {
      const bool dies = draw(0, 3) > 0;
      launch.interruption = {
          .kind = dies ? Interruption::Kind::kDeath : Interruption::Kind::kWish,
          .after_step = draw(done, spec.steps - 1),
          .rank = static_cast<int>(draw(0, RankCount(launch.plan) - 1)),
          .operation = static_cast<int>(draw(1, int64_t{1} << draw(0, 9))),
      };
    }
    absl::StrAppend(&history, "\nfrom step ", done, " ", Describe(launch.interruption), ": ",
                    Describe(launch.plan));
    INFO(history);
    REQUIRE(ClaimFolder(spec.checkpoint_directory, OwnerOf(number)).ok());
    const Outcome outcome = Run(spec, launch);
    for (const absl::Status& status : outcome.statuses) {
      INFO(status.ToString());
      const bool killed = absl::IsCancelled(status) || absl::IsUnavailable(status);
      REQUIRE((status.ok() || (outcome.died && killed)));
    }
    Launches& launches = AllLaunches();
    launches.died += outcome.died;
    launches.resumed += from.has_value();
    CheckCurve(outcome.losses, whole.losses, tolerance.losses);
    CheckCurve(outcome.validations, whole.validations, tolerance.losses);
    for (const auto& [step, scale] : outcome.loss_scales) {
      CAPTURE(step);
      if (loss_scale.has_value()) CHECK(scale == whole.loss_scales.at(step));
    }
    if (from.has_value()) {
      // Whatever the plan, what was loaded is all of it, and is saved as it was.
      const auto copy = ReadManifest(CheckpointDirectory(launch.copies, done));
      REQUIRE(copy.ok());
      CHECK(copy->files == from->files);
      CHECK(copy->loss_scale == from->loss_scale);
    }
    const auto search = LatestCheckpoint(spec.checkpoint_directory, Verification::kChecksums, spec.steps,
                                         OwnerOf(number).run);
    REQUIRE(search.ok());
    from = search->latest;
    const int64_t saved = from.has_value() ? from->step : 0;
    if (!outcome.checkpoints.empty()) CHECK(saved >= outcome.checkpoints.back());
    CHECK(saved >= done);
    if (outcome.died) continue;
    // All ranks agree with what is saved, and at the end it is what the undisturbed run has.
    REQUIRE(saved == (outcome.checkpoints.empty() ? done : outcome.checkpoints.back()));
    absl::StatusOr<State> state = StateOf(*from);
    INFO(state.status().ToString());
    REQUIRE(state.ok());
    CHECK(state->parameters == outcome.state.parameters);
    CHECK(state->m == outcome.state.m);
    CHECK(state->v == outcome.state.v);
    (saved < spec.steps ? launches.ended_early : launches.whole) += 1;
    if (saved < spec.steps) continue;
    CHECK(Difference(state->parameters, whole.state.parameters, Over::kAll) <= tolerance.parameters);
    CHECK(Difference(state->m, whole.state.m, Over::kEach) <= tolerance.moments);
    CHECK(Difference(state->v, whole.state.v, Over::kEach) <= tolerance.moments);
    return;
  }
}

constexpr int kVocabulary = 31, kSequence = 8;
constexpr ModelConfig kGpt2 = {.layers = 3,
                               .hidden = 16,
                               .heads = 4,
                               .feed_forward = 34,
                               .vocabulary = kVocabulary,
                               .context = kSequence};
constexpr ModelConfig kLlama = {.layers = 2,
                                .hidden = 16,
                                .heads = 6,
                                .feed_forward = 25,
                                .vocabulary = kVocabulary,
                                .context = kSequence,
                                .family = ModelFamily::kLlama,
                                .tied_head = false,
                                .key_value_heads = 3,
                                .head_size = 4};

ModelConfig Tied(ModelConfig config) {
  config.tied_head = true;
  return config;
}

// The models, with as many devices as may share a layer of them.
const std::pair<ModelConfig, int> kModels[] = {{kGpt2, 4}, {kLlama, 4}, {Tied(kLlama), 4}};
constexpr int kModelCount = 3;

// Ids that count up with a jump now and then, each a byte.
std::string MadeUpText(int ids, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::string text;
  uint64_t id = 0;
  for (int i = 0; i < ids; ++i) {
    id = random() % 8 == 0 ? random() % kVocabulary : (id + 1) % kVocabulary;
    text.push_back(static_cast<char>(id));
  }
  return text;
}

// Ten steps over a file that is read anew, in another order, after less than four of them.
TrainingSpec TinyJob(int model, const TemporaryDirectory& directory) {
  TrainingSpec spec;
  spec.job_name = "tiny";
  spec.shape = {.model = kModels[model].first, .sequence = kSequence, .global_batch_sequences = 8};
  spec.train_file = directory.Write("train.txt", MadeUpText(30 * kSequence + 1, 1));
  spec.validation_file = directory.Write("validation.txt", MadeUpText(8 * kSequence + 1, 2));
  spec.data_format = TokenFormat::kText;
  spec.data_order = model == 0 ? DataOrder::kSequential : DataOrder::kShuffled;
  spec.steps = 10;
  spec.optimizer.learning_rate = 3e-3;
  spec.optimizer.minimum_learning_rate = 3e-4;
  spec.optimizer.warmup_steps = 3;
  spec.optimizer.clip_norm = 0.5;
  spec.seed = 11;
  spec.checkpoint_directory = directory.File("job");
  spec.validate_every_steps = 4;
  return spec;
}

Outcome RunUndisturbed(TrainingSpec spec, const Plan& plan,
                       std::optional<LossScale> loss_scale = std::nullopt) {
  const TemporaryDirectory directory;
  spec.checkpoint_directory = directory.File("undisturbed");
  Outcome outcome = Run(spec, {.plan = plan, .loss_scale = loss_scale});
  for (const absl::Status& status : outcome.statuses) {
    INFO(status.ToString());
    REQUIRE(status.ok());
  }
  REQUIRE(outcome.losses.size() == static_cast<size_t>(spec.steps));
  return outcome;
}

// Of a single device in f32.
const Outcome& Undisturbed(int model, const TrainingSpec& spec) {
  static std::array<std::optional<Outcome>, kModelCount>* const runs =
      new std::array<std::optional<Outcome>, kModelCount>();
  std::optional<Outcome>& run = (*runs)[model];
  if (!run.has_value()) {
    TrainingSpec in_f32 = spec;
    in_f32.precision = Precision::kF32;
    run = RunUndisturbed(in_f32, SingleDevicePlan(spec.shape, 8));
  }
  return *run;
}

// What a job computes in, and what units of its plans store.
struct Types {
  std::string name;
  Precision precision = Precision::kF32;
  std::vector<Dtype> stored;  // each as likely; empty: f32
};
const Types kF32{.name = "f32"};
const Types kMixed[] = {
    {.name = "some units store bf16", .stored = {Dtype::kF32, Dtype::kBf16}},
    {.name = "bf16", .precision = Precision::kBf16, .stored = {Dtype::kF32, Dtype::kBf16}},
    {.name = "f16", .precision = Precision::kF16, .stored = {Dtype::kF32, Dtype::kF16}},
};

Plan AnyPlan(std::mt19937_64& random, const TrainingShape& shape, int most_degree, const Types& types) {
  const uint64_t seed = random();
  Plan plan = random() % 3 == 0 ? RandomPlan(seed, shape, 4) : RandomWidePlan(seed, shape, most_degree);
  for (Unit& unit : plan.units) {
    if (!types.stored.empty()) unit.activations = types.stored[random() % types.stored.size()];
  }
  return random() % 3 == 0 ? GoAhead(std::move(plan)) : plan;
}

TrainingSpec AnyJob(std::mt19937_64& random, int model, const Types& types,
                    const TemporaryDirectory& directory) {
  TrainingSpec spec = TinyJob(model, directory);
  spec.precision = types.precision;
  spec.checkpoint_every_steps = 2 + static_cast<int64_t>(random() % 3);
  spec.checkpoint_keep = 1 + static_cast<int>(random() % 2);
  return spec;
}

TEST_CASE("a job that is killed anywhere, and goes on under other plans, is the undisturbed single device's",
          "[property]") {
  const uint64_t seed = GENERATE(range(uint64_t{1}, uint64_t{31}));
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const TemporaryDirectory directory;
  const int model = static_cast<int>(seed % kModelCount);
  const TrainingSpec spec = AnyJob(random, model, kF32, directory);
  CheckInterrupted(spec, [&] { return AnyPlan(random, spec.shape, kModels[model].second, kF32); }, random,
                   Undisturbed(model, spec), {.losses = 1e-6, .parameters = 1e-5, .moments = 1e-5});
}

TEST_CASE("a job of mixed types that is killed anywhere follows the undisturbed one in f32", "[property]") {
  const uint64_t seed = GENERATE(range(uint64_t{1001}, uint64_t{1013}));
  const Types& types = kMixed[seed % 3];
  CAPTURE(seed, types.name);
  std::mt19937_64 random(seed);
  const TemporaryDirectory directory;
  const int model = static_cast<int>(random() % kModelCount);
  const TrainingSpec spec = AnyJob(random, model, types, directory);
  CheckInterrupted(spec, [&] { return AnyPlan(random, spec.shape, kModels[model].second, types); }, random,
                   Undisturbed(model, spec), {.losses = 5e-4, .parameters = 2e-2, .moments = 0.2});
}

TEST_CASE("a job that is killed anywhere, and goes on under its own plan, is the undisturbed one to the bit",
          "[property]") {
  const uint64_t seed = GENERATE(range(uint64_t{2001}, uint64_t{2013}));
  const Types& types = seed % 4 == 3 ? kF32 : kMixed[seed % 4];
  CAPTURE(seed, types.name);
  std::mt19937_64 random(seed);
  const TemporaryDirectory directory;
  const int model = static_cast<int>(random() % kModelCount);
  TrainingSpec spec = AnyJob(random, model, types, directory);
  if (random() % 4 == 0) spec.communication.gradient_wire = Precision::kBf16;
  const Plan plan = AnyPlan(random, spec.shape, kModels[model].second, types);
  // Too large, so that it halves a few times before steps count.
  std::optional<LossScale> loss_scale;
  if (types.precision == Precision::kF16) loss_scale = LossScale{.factor = LossScale::kMost};
  CheckInterrupted(
      spec, [&] { return plan; }, random, RunUndisturbed(spec, plan, loss_scale), {}, loss_scale);
}

TEST_CASE("jobs were killed, ended early and resumed") {
  const Launches& launches = AllLaunches();
  if (launches.whole == 0) return;  // none of the cases above was run
  INFO(launches.whole << " launches to the end, " << launches.died << " killed, " << launches.ended_early
                      << " ended early, " << launches.resumed << " from a checkpoint");
  CHECK(launches.died > launches.whole / 4);
  CHECK(launches.ended_early > launches.whole / 20);
  CHECK(launches.resumed > launches.whole / 4);
}

}  // namespace
}  // namespace medley
