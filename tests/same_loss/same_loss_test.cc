#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/ir/plan/check_plan.h"
#include "runtime/ir/program/random_plan.h"
#include "tests/same_loss/training_harness.h"

namespace medley {
namespace {

constexpr ModelConfig kGpt2 = {
    .layers = 3, .hidden = 16, .heads = 2, .feed_forward = 64, .vocabulary = 31, .context = 12};
constexpr ModelConfig kLlama = {.layers = 3,
                                .hidden = 16,
                                .heads = 4,
                                .feed_forward = 40,
                                .vocabulary = 31,
                                .context = 12,
                                .family = ModelFamily::kLlama,
                                .tied_head = false,
                                .key_value_heads = 2,
                                .head_size = 6};

// Heads for up to four ranks, of unlike shares; sizes that four do not divide.
constexpr ModelConfig kWide = {
    .layers = 2, .hidden = 24, .heads = 6, .feed_forward = 50, .vocabulary = 31, .context = 12};

ModelConfig Tied(ModelConfig config) {
  config.tied_head = true;
  return config;
}

const ModelConfig kModels[] = {kGpt2, kLlama, Tied(kLlama)};

TrainingSpec TinyJob(const ModelConfig& model = kGpt2) {
  TrainingSpec spec;
  spec.job_name = "tiny";
  spec.shape = {.model = model, .sequence = 12, .global_batch_sequences = 8};
  spec.steps = 20;
  spec.optimizer.learning_rate = 3e-3;
  spec.optimizer.minimum_learning_rate = 3e-4;
  spec.optimizer.warmup_steps = 4;
  spec.optimizer.clip_norm = 0.5;
  spec.seed = 11;
  return spec;
}

WindowFactory Windows(const TrainingSpec& spec) {
  return [&spec] { return std::make_unique<MadeUpWindows>(5, spec.shape.model.vocabulary); };
}

TEST_CASE("tensors differ where a value is not a number, one is missing or has another size") {
  const Tensors run = {{"a", {1, -4}}, {"b", {2}}, {"none", {0}}};
  const Over over = GENERATE(Over::kAll, Over::kEach);
  CHECK(Difference(run, run, over) == 0);
  Tensors other = run;
  other["a"][0] = 1.5f;
  CHECK(Difference(other, run, over) == 0.125);
  other = run;
  other["b"][0] = 2.5f;
  CHECK(Difference(other, run, over) == (over == Over::kAll ? 0.125 : 0.25));
  const auto differs = [&] {
    return !(Difference(other, run, over) < 1e-4) && !(Difference(run, other, over) < 1e-4);
  };
  for (const float value : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
    for (const auto& [name, index] : {std::pair("a", 0), std::pair("a", 1), std::pair("b", 0)}) {
      CAPTURE(value, name, index);
      other = run;
      other[name][index] = value;
      CHECK(differs());
      CHECK_FALSE(Difference(other, other, over) < 1e-4);
    }
  }
  other = run;
  other.erase("b");
  CHECK(differs());
  other = run;
  other["b"].push_back(0);
  CHECK(differs());
}

TrainingRun SingleDeviceRun(const TrainingSpec& spec) {
  return *TrainUnderPlan(spec, SingleDevicePlan(spec.shape, 8), Windows(spec));
}

// The run of TinyJob(model) on a single device, once for all cases.
const TrainingRun& SingleDeviceRunOf(const ModelConfig& model) {
  static auto* const known = new std::vector<std::pair<ModelConfig, std::unique_ptr<const TrainingRun>>>();
  for (const auto& [of, run] : *known) {
    if (of == model) return *run;
  }
  known->emplace_back(model, std::make_unique<const TrainingRun>(SingleDeviceRun(TinyJob(model))));
  return *known->back().second;
}

TEST_CASE("a single device learns") {
  const TrainingRun& run = SingleDeviceRunOf(kModels[GENERATE(0, 1)]);
  REQUIRE(run.losses.size() == 20);
  CHECK(run.losses.front() == Approx(std::log(31.0)).epsilon(0.05));
  CHECK(run.losses.back() < run.losses.front() - 0.2);
}

// How far what a plan trains may be from what a single device does. f32 has 24 bits, and each sum of a gradient that is made in
// another order rounds otherwise, by some 1e-7 of its largest terms. AdamW divides each gradient by the root of its own second
// moment, so that an element whose gradient is small beside its terms moves by its full learning rate whatever is left of its
// digits; and a step that differs makes the next ones differ. Ten such steps stay within 1e-5 (resume_test); these are twenty, of
// more plans. What a wrong plan leaves out or counts twice is a micro-batch, a member or a slice, and far more than that.
constexpr double kParameterTolerance = 5e-5, kMomentTolerance = 5e-5;

void CheckSameTraining(const TrainingSpec& spec, const Plan& plan, const TrainingRun& single,
                       const DeviceOpener& open = nullptr) {
  CAPTURE(Describe(plan));
  const absl::StatusOr<TrainingRun> run = TrainUnderPlan(spec, plan, Windows(spec), nullptr, open);
  INFO(run.status().ToString());
  REQUIRE(run.ok());
  for (size_t i = 0; i < single.losses.size(); ++i) {
    CAPTURE(i);
    CHECK(run->losses[i] == Approx(single.losses[i]).epsilon(1e-5));
    CHECK(run->gradient_norms[i] == Approx(single.gradient_norms[i]).epsilon(1e-4));
  }
  CHECK(run->validation_loss == Approx(single.validation_loss).epsilon(1e-5));
  CHECK(Difference(run->parameters, single.parameters, Over::kAll) < kParameterTolerance);
  // AdamW forgets how large gradients are: a wrong scale, or a stale moment, shows here.
  CHECK(Difference(run->first_moments, single.first_moments, Over::kEach) < kMomentTolerance);
  CHECK(Difference(run->second_moments, single.second_moments, Over::kEach) < kMomentTolerance);
}

TEST_CASE("any plan gives the loss curve and the weights of a single device", "[property]") {
  const uint64_t seed = GENERATE(range(uint64_t{1}, uint64_t{41}));
  CAPTURE(seed);
  // Every fifth has units of up to four devices, of a model that so many can share.
  if (seed % 5 == 0) {
    const TrainingSpec spec = TinyJob(kWide);
    return CheckSameTraining(spec, RandomWidePlan(seed, spec.shape, 4), SingleDeviceRunOf(kWide));
  }
  const TrainingSpec spec = TinyJob();
  CheckSameTraining(spec, RandomPlan(seed, spec.shape, 4), SingleDeviceRunOf(kGpt2));
}

TEST_CASE("any plan of a Llama gives the loss curve and the weights of a single device", "[property]") {
  const TrainingSpec spec = TinyJob(kModels[GENERATE(1, 2)]);
  const TrainingRun& single = SingleDeviceRunOf(spec.shape.model);
  for (uint64_t seed = 101; seed < 121; ++seed) {
    CAPTURE(seed);
    CheckSameTraining(spec, RandomPlan(seed, spec.shape, 4), single);
  }
}

TEST_CASE("devices that the host cannot reach into train alike, among others", "[property]") {
  const TrainingSpec spec = TinyJob(kModels[GENERATE(0, 1)]);
  const TrainingRun& single = SingleDeviceRunOf(spec.shape.model);
  for (uint64_t seed = 201; seed < 209; ++seed) {
    CAPTURE(seed);
    CheckSameTraining(spec, RandomPlan(seed, spec.shape, 4), single, OpenMixed);
  }
}

TEST_CASE(
    "units of several ranges of blocks, on several routes with micro-batches of their own size, train alike",
    "[property]") {
  const TrainingSpec spec = TinyJob(kModels[GENERATE(0, 1, 2)]);
  const TrainingRun& single = SingleDeviceRunOf(spec.shape.model);
  for (uint64_t seed = 501; seed < 521; ++seed) {
    CAPTURE(seed);
    const Plan plan = RandomWidePlan(seed, spec.shape, 1);
    CHECK(CheckPlanForm(plan, spec.shape).empty());
    CheckSameTraining(spec, plan, single, seed % 2 == 0 ? DeviceOpener(OpenMixed) : nullptr);
  }
}

TEST_CASE("units of several devices train alike, evenly shared or not, beside units that share otherwise",
          "[property]") {
  const auto [model, most] =
      GENERATE(table<ModelConfig, int>({{kModels[0], 2}, {kModels[1], 4}, {kModels[2], 4}, {kWide, 4}}));
  const TrainingSpec spec = TinyJob(model);
  const TrainingRun& single = SingleDeviceRunOf(spec.shape.model);
  for (uint64_t seed = 601; seed < 615; ++seed) {
    CAPTURE(seed);
    const Plan plan = RandomWidePlan(seed, spec.shape, most);
    CHECK(CheckPlanForm(plan, spec.shape).empty());
    CheckSameTraining(spec, plan, single, seed % 2 == 0 ? DeviceOpener(OpenMixed) : nullptr);
  }
}

// A unit of `degree` devices in sequence parallelism, a stage of two that share otherwise behind it, and a
// replica of one device; micro-batches of which the rows are not a multiple of three.
Plan SequenceParallel(const TrainingShape& shape, int degree) {
  const int end = shape.model.blocks();
  Plan plan;
  plan.units = {{.chunks = {{0, 2}}, .sequence_parallel = true},
                {.devices = {"test/b0", "test/b1"}, .chunks = {{2, end}}},
                {.devices = {"test/c0"}, .chunks = {{0, end}}}};
  for (int d = 0; d < degree; ++d) plan.units[0].devices.push_back("test/a" + std::to_string(d));
  plan.routes = {{.units = {0, 1}, .micro_batches = 4, .micro_batch_sequences = 1},
                 {.units = {2}, .micro_batches = 2, .micro_batch_sequences = 2}};
  return plan;
}

TEST_CASE("units that cut rows train alike before, behind and beside units that do not, recomputing or not") {
  TrainingSpec spec = TinyJob(GENERATE(kWide, kLlama, kGpt2));
  spec.shape.sequence = 11;
  const TrainingRun single = SingleDeviceRun(spec);
  const int most = std::min(spec.shape.model.heads, 4);
  for (int degree = 2; degree <= most; ++degree) {
    for (const Recompute recompute : {Recompute::kNone, Recompute::kAllButAttention, Recompute::kLayers}) {
      Plan plan = SequenceParallel(spec.shape, degree);
      plan.units[0].recompute = recompute;
      CheckSameTraining(spec, plan, single);
      // Gradients apart, and both stages by rows.
      plan.schedule = Schedule::kZeroBubbleH1;
      plan.units[1].sequence_parallel = true;
      CHECK(CheckPlanForm(plan, spec.shape).empty());
      CheckSameTraining(spec, plan, single, OpenMixed);
    }
  }
}

TEST_CASE(
    "in sequence parallelism what is made again, gradients apart and layers on the host have the bits of "
    "what was kept") {
  TrainingSpec spec = TinyJob(GENERATE(kWide, kLlama));
  spec.optimizer.clip_norm = 0;  // of which layers on the host have norms of their own
  Plan plan = SequenceParallel(spec.shape, 2);
  const Dtype type = GENERATE(Dtype::kF32, Dtype::kBf16);
  for (Unit& unit : plan.units) unit.activations = type;
  const absl::StatusOr<TrainingRun> kept = TrainUnderPlan(spec, plan, Windows(spec));
  REQUIRE(kept.ok());
  for (const Recompute recompute : {Recompute::kAllButAttention, Recompute::kLayers}) {
    plan.units[0].recompute = recompute;
    const absl::StatusOr<TrainingRun> made_again = TrainUnderPlan(spec, plan, Windows(spec));
    REQUIRE(made_again.ok());
    CHECK(made_again->losses == kept->losses);
    CHECK(made_again->parameters == kept->parameters);
  }
  plan.units[0].recompute = Recompute::kNone;
  plan.schedule = Schedule::kZeroBubbleH1;
  const absl::StatusOr<TrainingRun> apart = TrainUnderPlan(spec, plan, Windows(spec));
  REQUIRE(apart.ok());
  CHECK(apart->losses == kept->losses);
  CHECK(apart->parameters == kept->parameters);
  plan.schedule = Schedule::kOneForwardOneBackward;
  plan.units[0].window_layers = plan.units[1].window_layers = 1;
  CHECK(CheckPlanForm(plan, spec.shape).empty());
  const absl::StatusOr<TrainingRun> on_host = TrainUnderPlan(spec, plan, Windows(spec), nullptr, OpenMixed);
  INFO(on_host.status().ToString());
  REQUIRE(on_host.ok());
  CHECK(on_host->losses == kept->losses);
  CHECK(on_host->parameters == kept->parameters);
}

TEST_CASE("units that cut rows follow the f32 run within the rounding of what they store") {
  TrainingSpec spec = TinyJob(GENERATE(kWide, kLlama));
  const TrainingRun& single = SingleDeviceRunOf(spec.shape.model);
  const Dtype type = GENERATE(Dtype::kBf16, Dtype::kF16);
  if (type == Dtype::kF16) spec.precision = Precision::kF16;
  Plan plan = SequenceParallel(spec.shape, 2);
  plan.units[0].activations = type;
  plan.units[1].sequence_parallel = true;
  const absl::StatusOr<TrainingRun> run = TrainUnderPlan(spec, plan, Windows(spec), nullptr, OpenMixed);
  INFO(run.status().ToString());
  REQUIRE(run.ok());
  CHECK(run->losses != single.losses);
  for (size_t i = 0; i < single.losses.size(); ++i) {
    CAPTURE(i);
    CHECK(run->losses[i] == Approx(single.losses[i]).epsilon(type == Dtype::kF16 ? 5e-4 : 2e-3));
  }
}

// Two stages of two devices each that cut micro-batches of three sequences and of two into parts, beside a replica.
Plan InParts(const TrainingShape& shape, int parts) {
  const int end = shape.model.blocks();
  Plan plan;
  plan.units = {{.devices = {"test/a0", "test/a1"}, .chunks = {{0, 2}}, .exchange_parts = parts},
                {.devices = {"test/b0", "test/b1"}, .chunks = {{2, end}}, .exchange_parts = 2},
                {.devices = {"test/c0"}, .chunks = {{0, end}}}};
  plan.routes = {{.units = {0, 1}, .micro_batches = 2, .micro_batch_sequences = 3},
                 {.units = {2}, .micro_batches = 1, .micro_batch_sequences = 2}};
  return plan;
}

TEST_CASE("units that cut micro-batches into parts train as those that do not, to the same bits each time") {
  const TrainingSpec spec = TinyJob(GENERATE(kWide, kLlama, kGpt2));
  const TrainingRun& single = SingleDeviceRunOf(spec.shape.model);
  for (const int parts : {2, 3, 7}) {
    CAPTURE(parts);
    Plan plan = InParts(spec.shape, parts);
    CHECK(CheckPlanForm(plan, spec.shape).empty());
    CheckSameTraining(spec, plan, single, OpenMixed);
    const absl::StatusOr<TrainingRun> first = TrainUnderPlan(spec, plan, Windows(spec), nullptr, OpenMixed);
    const absl::StatusOr<TrainingRun> again = TrainUnderPlan(spec, plan, Windows(spec), nullptr, OpenMixed);
    REQUIRE(first.ok());
    REQUIRE(again.ok());
    CHECK(first->losses == again->losses);
    CHECK(first->parameters == again->parameters);
    // What is made again, and gradients apart, have the bits of what was kept.
    for (const Recompute recompute : {Recompute::kAllButAttention, Recompute::kLayers}) {
      plan.units[0].recompute = recompute;
      const absl::StatusOr<TrainingRun> made_again =
          TrainUnderPlan(spec, plan, Windows(spec), nullptr, OpenMixed);
      REQUIRE(made_again.ok());
      CHECK(made_again->losses == first->losses);
      CHECK(made_again->parameters == first->parameters);
    }
    plan.units[0].recompute = Recompute::kNone;
    plan.schedule = Schedule::kZeroBubbleH1;
    const absl::StatusOr<TrainingRun> apart = TrainUnderPlan(spec, plan, Windows(spec), nullptr, OpenMixed);
    REQUIRE(apart.ok());
    CHECK(apart->losses == first->losses);
    CHECK(apart->parameters == first->parameters);
  }
}

// `count` units that hold the whole model.
Plan Replicas(const TrainingShape& shape, int count) {
  Plan plan;
  for (int u = 0; u < count; ++u) {
    plan.units.push_back({.devices = {"test/" + std::to_string(u)}, .chunks = {{0, shape.model.blocks()}}});
    plan.routes.push_back(
        {.units = {u}, .micro_batches = 1, .micro_batch_sequences = shape.global_batch_sequences / count});
  }
  return plan;
}

TEST_CASE("two replicas that shard the optimizer, however unevenly, train as two that do not, to the bit") {
  TrainingSpec spec = TinyJob(kModels[GENERATE(0, 1)]);
  spec.optimizer.clip_norm = 0;  // whose scale follows the order in which norms are summed
  Plan plan = Replicas(spec.shape, 2);
  const absl::StatusOr<TrainingRun> whole = TrainUnderPlan(spec, plan, Windows(spec));
  REQUIRE(whole.ok());
  plan.shards_optimizer = true;
  for (const auto& [first, second] : {std::pair(1, 1), std::pair(5, 2), std::pair(0, 1)}) {
    plan.units[0].optimizer_weight = first;
    plan.units[1].optimizer_weight = second;
    CAPTURE(Describe(plan));
    const absl::StatusOr<TrainingRun> run = TrainUnderPlan(spec, plan, Windows(spec), nullptr, OpenMixed);
    INFO(run.status().ToString());
    REQUIRE(run.ok());
    CHECK(run->losses == whole->losses);
    CHECK(run->parameters == whole->parameters);
  }
}

TEST_CASE("two replicas whose layers live with both train as two that hold them, to the bit") {
  TrainingSpec spec = TinyJob(kModels[GENERATE(0, 1)]);
  spec.optimizer.clip_norm = 0;  // whose scale follows the order in which norms are summed
  Plan plan = Replicas(spec.shape, 2);
  plan.schedule = Schedule::kGPipe;
  plan.shards_optimizer = true;
  const absl::StatusOr<TrainingRun> whole = TrainUnderPlan(spec, plan, Windows(spec));
  REQUIRE(whole.ok());
  for (const LayersHome home : {LayersHome::kGradientsOnPeers, LayersHome::kPeers}) {
    for (const auto& [first, second] : {std::pair(1, 1), std::pair(5, 2), std::pair(0, 1)}) {
      for (size_t u = 0; u < 2; ++u) {
        plan.units[u].layers_home = home;
        plan.units[u].window_layers = static_cast<int>(1 + u);
        plan.units[u].optimizer_weight = u == 0 ? first : second;
      }
      CAPTURE(Describe(plan));
      CHECK(CheckPlanForm(plan, spec.shape).empty());
      const absl::StatusOr<TrainingRun> run = TrainUnderPlan(spec, plan, Windows(spec), nullptr, OpenMixed);
      INFO(run.status().ToString());
      REQUIRE(run.ok());
      CHECK(run->losses == whole->losses);
      CHECK(run->validation_loss == whole->validation_loss);
      CHECK(run->parameters == whole->parameters);
    }
  }
}

TEST_CASE("layers that live with holders of other widths, ranges and batches follow the single device",
          "[property]") {
  const TrainingSpec spec = TinyJob(kModels[GENERATE(0, 1)]);
  const TrainingRun& single = SingleDeviceRunOf(spec.shape.model);
  int ran = 0;
  for (uint64_t seed = 1000; ran < 12; ++seed) {
    Plan plan = seed % 2 == 0 ? RandomPlan(seed, spec.shape, 4) : RandomWidePlan(seed, spec.shape, 2);
    if (!MoveLayersToPeers(plan, spec.shape.model, seed)) continue;
    ++ran;
    CAPTURE(seed, Describe(plan));
    REQUIRE(CheckPlanForm(plan, spec.shape).empty());
    CheckSameTraining(spec, plan, single, OpenMixed);
  }
}

TEST_CASE(
    "where the optimizer is sharded, gradients that travel as bf16 leave all holders with the same bits") {
  TrainingSpec spec = TinyJob();
  Plan plan = Replicas(spec.shape, 4);
  plan.shards_optimizer = true;
  plan.units[2].optimizer_weight = 0;
  const TrainingRun& single = SingleDeviceRunOf(kGpt2);
  spec.communication.gradient_wire = Precision::kBf16;
  const absl::StatusOr<TrainingRun> run = TrainUnderPlan(spec, plan, Windows(spec), nullptr, OpenMixed);
  INFO(run.status().ToString());
  REQUIRE(run.ok());  // the harness compares the holders
  CHECK(run->parameters != single.parameters);
  for (size_t i = 0; i < single.losses.size(); ++i)
    CHECK(run->losses[i] == Approx(single.losses[i]).epsilon(5e-3));
}

// Clipped at the median of the norms, so that some of what was made ahead is made again.
TEST_CASE("steps that go ahead of norms have the bits of steps that wait for them, clipped or not",
          "[property]") {
  const auto [precision, clips] = GENERATE(
      table<Precision, bool>({{Precision::kF32, false}, {Precision::kF32, true}, {Precision::kF16, true}}));
  const int model = GENERATE(0, 1);
  TrainingSpec spec = TinyJob(kModels[model]);
  spec.precision = precision;
  spec.optimizer.clip_norm = 0;
  if (clips) {
    std::vector<double> norms = SingleDeviceRun(spec).gradient_norms;
    std::nth_element(norms.begin(), norms.begin() + norms.size() / 2, norms.end());
    spec.optimizer.clip_norm = norms[norms.size() / 2];
  }
  const double clip_norm = spec.optimizer.clip_norm;
  int clipped = 0, held = 0;
  // Each model has plans of its own.
  const uint64_t first_seed = model == 0 ? 301 : 307;
  for (uint64_t seed = first_seed; seed < first_seed + 6; ++seed) {
    const Plan plan =
        GoAhead(seed % 2 == 0 ? RandomPlan(seed, spec.shape, 4) : RandomWidePlan(seed, spec.shape, 2));
    CAPTURE(seed, Describe(plan));
    REQUIRE(CheckPlanForm(plan, spec.shape).empty());
    Plan waits = plan;
    waits.post_validation = false;
    const absl::StatusOr<TrainingRun> one = TrainUnderPlan(spec, waits, Windows(spec), nullptr, OpenMixed),
                                      other = TrainUnderPlan(spec, plan, Windows(spec), nullptr, OpenMixed);
    INFO(one.status().ToString() << other.status().ToString());
    REQUIRE(one.ok());
    REQUIRE(other.ok());
    CHECK(one->losses == other->losses);
    CHECK(one->gradient_norms == other->gradient_norms);
    CHECK(one->validation_loss == other->validation_loss);
    CHECK(one->parameters == other->parameters);
    for (size_t i = 0; i + 1 < one->gradient_norms.size(); ++i)
      ++(clips && one->gradient_norms[i] > clip_norm ? clipped : held);
  }
  CHECK(clips == (clipped > 5));
  CHECK(held > 5);
}

TEST_CASE("a plan gives the same bits every time") {
  const TrainingSpec spec = TinyJob();
  Plan plan = RandomPlan(GENERATE(3, 8), spec.shape, 4);
  plan.shards_optimizer = GENERATE(false, true);
  CAPTURE(Describe(plan));
  const absl::StatusOr<TrainingRun> a = TrainUnderPlan(spec, plan, Windows(spec));
  const absl::StatusOr<TrainingRun> b = TrainUnderPlan(spec, plan, Windows(spec));
  REQUIRE(a.ok());
  REQUIRE(b.ok());
  CHECK(a->losses == b->losses);
  CHECK(a->parameters == b->parameters);
}

TEST_CASE("what is made again of activations has the bits that were not kept, in either way and type") {
  const TrainingSpec spec = TinyJob(kModels[GENERATE(0, 1)]);
  Plan plan = RandomPlan(GENERATE(3, 8), spec.shape, 4);
  const Dtype type = GENERATE(Dtype::kF32, Dtype::kBf16);
  const auto run = [&](Recompute recompute) {
    for (Unit& unit : plan.units) {
      unit.activations = type;
      unit.recompute = recompute;
    }
    const absl::StatusOr<TrainingRun> result = TrainUnderPlan(spec, plan, Windows(spec));
    INFO(result.status().ToString());
    REQUIRE(result.ok());
    return *result;
  };
  CAPTURE(Describe(plan));
  const TrainingRun kept = run(Recompute::kNone);
  for (const Recompute recompute : {Recompute::kAllButAttention, Recompute::kLayers}) {
    const TrainingRun made_again = run(recompute);
    CHECK(made_again.losses == kept.losses);
    CHECK(made_again.parameters == kept.parameters);
  }
}

TEST_CASE("layers that live on the host train with the bits of layers that live on the device",
          "[property]") {
  // Under GPipe the gradients of a tied head and embedding come in another order.
  const auto [model, schedule] = GENERATE(table<ModelConfig, Schedule>({
      {kGpt2, Schedule::kOneForwardOneBackward},
      {kLlama, Schedule::kOneForwardOneBackward},
      {kLlama, Schedule::kGPipe},
  }));
  TrainingSpec spec = TinyJob(model);
  // Slices of their own are summed in another order where three hold them or more.
  Plan plan = RandomPlan(GENERATE(range(uint64_t{1}, uint64_t{6})), spec.shape, 2);
  plan.schedule = schedule;
  plan.shards_optimizer = GENERATE(false, true);
  spec.optimizer.clip_norm = 0;  // norms by layer, too
  const auto run = [&](int most_windows) {
    for (Unit& unit : plan.units) {
      unit.order.clear();
      unit.paces.clear();
      unit.optimizer_weight = 1;
      unit.window_layers = std::min(most_windows, LayersOf(unit, spec.shape.model));
    }
    CAPTURE(Describe(plan));
    CHECK(CheckPlanForm(plan, spec.shape).empty());
    const absl::StatusOr<TrainingRun> result = TrainUnderPlan(spec, plan, Windows(spec), nullptr, OpenMixed);
    INFO(result.status().ToString());
    REQUIRE(result.ok());
    return *result;
  };
  const TrainingRun on_device = run(0);
  for (const int windows : {1, 2, 3}) {
    const TrainingRun on_host = run(windows);
    CAPTURE(Describe(plan));
    CHECK(on_host.losses == on_device.losses);
    CHECK(on_host.validation_loss == on_device.validation_loss);
    CHECK(on_host.parameters == on_device.parameters);
  }
}

// The stashes that go home in a step of all ranks.
int StoredStashes(const Plan& plan, const TrainingShape& shape) {
  int stored = 0;
  for (Rank rank = 0; rank < RankCount(plan); ++rank) {
    for (const Instruction& i : CompileStep(plan, rank, shape, Purpose::kTrain).instructions)
      stored += i.kind == InstructionKind::kStore && i.micro_batch >= 0;
  }
  return stored;
}

// Plans with four micro-batches and more on their way in some unit, by number.
Plan WithManyOnTheirWay(int number, const TrainingShape& shape) {
  const int end = shape.model.blocks();
  Plan plan = SingleDevicePlan(shape, 1);
  plan.schedule = Schedule::kGPipe;
  switch (number) {
    case 0:
      return plan;
    case 1:  // micro-batches of two sizes
      plan.routes = {{.units = {0}, .micro_batches = 4, .micro_batch_sequences = 1},
                     {.units = {0}, .micro_batches = 2, .micro_batch_sequences = 2}};
      return plan;
    case 2:  // two ranges a unit
      plan.schedule = Schedule::kInterleavedGPipe;
      plan.units = {{.devices = {"test/a"}, .chunks = {{0, 1}, {2, 3}}},
                    {.devices = {"test/b"}, .chunks = {{1, 2}, {3, end}}, .recompute = Recompute::kLayers}};
      plan.routes[0].units = {0, 1, 0, 1};
      return plan;
    case 3:  // rows cut unevenly, one unit of another type
      plan.units = {{.devices = {"test/a0", "test/a1"}, .chunks = {{0, 2}}, .sequence_parallel = true},
                    {.devices = {"test/b"},
                     .chunks = {{2, end}},
                     .activations = Dtype::kBf16,
                     .recompute = Recompute::kAllButAttention}};
      plan.routes[0].units = {0, 1};
      return plan;
    default:  // four stages, gradients apart or not
      plan.schedule = number == 4 ? Schedule::kZeroBubbleH1 : Schedule::kOneForwardOneBackward;
      plan.units.clear();
      for (int s = 0; s < 4; ++s) {
        plan.units.push_back(
            {.devices = {"test/" + std::to_string(s)}, .chunks = {{s, s == 3 ? end : s + 1}}});
      }
      plan.routes[0].units = {0, 1, 2, 3};
      return plan;
  }
}

TEST_CASE("activations that live on the host train with the bits of activations that stay on the device") {
  TrainingSpec spec = TinyJob(kModels[GENERATE(0, 1)]);
  spec.shape.sequence = 11;
  spec.steps = 6;
  spec.optimizer.clip_norm = 0;  // of which layers on the host have norms of their own
  Plan plan = WithManyOnTheirWay(GENERATE(range(0, 6)), spec.shape);
  const absl::StatusOr<TrainingRun> on_device = TrainUnderPlan(spec, plan, Windows(spec));
  INFO(on_device.status().ToString());
  REQUIRE(on_device.ok());
  CHECK(StoredStashes(plan, spec.shape) == 0);
  for (Unit& unit : plan.units) unit.activations_home = ActivationsHome::kHost;
  for (const bool layers_too : {false, true}) {
    for (Unit& unit : plan.units)
      unit.window_layers = layers_too && LayersOf(unit, spec.shape.model) > 0 ? 1 : 0;
    CAPTURE(Describe(plan));
    CHECK(CheckPlanForm(plan, spec.shape).empty());
    CHECK(StoredStashes(plan, spec.shape) > 0);
    const absl::StatusOr<TrainingRun> on_host = TrainUnderPlan(spec, plan, Windows(spec), nullptr, OpenMixed);
    INFO(on_host.status().ToString());
    REQUIRE(on_host.ok());
    CHECK(on_host->losses == on_device->losses);
    CHECK(on_host->validation_loss == on_device->validation_loss);
    CHECK(on_host->parameters == on_device->parameters);
  }
}

TEST_CASE("activations of some layers that live on the host train with the bits of those that stay") {
  TrainingSpec spec = TinyJob(kModels[GENERATE(0, 1)]);
  spec.shape.sequence = 11;
  spec.steps = 6;
  const Recompute recompute = GENERATE(Recompute::kNone, Recompute::kAllButAttention, Recompute::kLayers);
  const int layers = spec.shape.model.layers;
  Plan plan = SingleDevicePlan(spec.shape, 1);
  plan.schedule = Schedule::kGPipe;
  plan.units[0].recompute = recompute;
  const absl::StatusOr<TrainingRun> on_device = TrainUnderPlan(spec, plan, Windows(spec));
  INFO(on_device.status().ToString());
  REQUIRE(on_device.ok());
  plan.units[0].activations_home = ActivationsHome::kHost;
  for (int homed = 1; homed < layers; ++homed) {
    plan.units[0].homed_layers = homed;
    CAPTURE(Describe(plan));
    CHECK(CheckPlanForm(plan, spec.shape).empty());
    CHECK(StoredStashes(plan, spec.shape) > 0);
    const absl::StatusOr<TrainingRun> on_host = TrainUnderPlan(spec, plan, Windows(spec), nullptr, OpenMixed);
    INFO(on_host.status().ToString());
    REQUIRE(on_host.ok());
    CHECK(on_host->losses == on_device->losses);
    CHECK(on_host->validation_loss == on_device->validation_loss);
    CHECK(on_host->parameters == on_device->parameters);
  }
}

TEST_CASE("a bf16 job follows the f32 one within bf16's rounding, under any plan") {
  TrainingSpec spec = TinyJob();
  spec.precision = Precision::kBf16;
  const Plan plan = RandomPlan(GENERATE(range(uint64_t{50}, uint64_t{54})), spec.shape, 4);
  CAPTURE(Describe(plan));
  const absl::StatusOr<TrainingRun> run = TrainUnderPlan(spec, plan, Windows(spec));
  REQUIRE(run.ok());
  const TrainingRun& single = SingleDeviceRunOf(kGpt2);
  CHECK(run->losses[0] != single.losses[0]);
  for (size_t i = 0; i < single.losses.size(); ++i)
    CHECK(run->losses[i] == Approx(single.losses[i]).epsilon(5e-3));
}

TEST_CASE("units that store activations as bf16 follow the f32 run within bf16's rounding, among others",
          "[property]") {
  const TrainingSpec spec = TinyJob(kModels[GENERATE(0, 1)]);
  const TrainingRun& single = SingleDeviceRunOf(spec.shape.model);
  const uint64_t seed = GENERATE(range(uint64_t{301}, uint64_t{309}));
  Plan plan = RandomPlan(seed, spec.shape, 4);
  for (size_t u = 0; u < plan.units.size(); ++u) {
    if (u % 2 == seed % 2 || seed % 3 == 0) plan.units[u].activations = Dtype::kBf16;
  }
  CAPTURE(seed, Describe(plan));
  const absl::StatusOr<TrainingRun> run = TrainUnderPlan(spec, plan, Windows(spec), nullptr, OpenMixed);
  INFO(run.status().ToString());
  REQUIRE(run.ok());
  double difference = 0;
  for (size_t i = 0; i < single.losses.size(); ++i) {
    CAPTURE(i);
    CHECK(run->losses[i] == Approx(single.losses[i]).epsilon(2e-3));
    difference = std::max(difference, std::abs(run->losses[i] - single.losses[i]));
  }
  CHECK(run->validation_loss == Approx(single.validation_loss).epsilon(2e-3));
  const bool rounds = Describe(plan).find("in bf16") != std::string::npos;
  CHECK((difference > 1e-6) == rounds);
}

TEST_CASE("an f16 job follows the f32 one within f16's rounding, whichever units store it", "[property]") {
  TrainingSpec spec = TinyJob(kModels[GENERATE(0, 1)]);
  const TrainingRun& single = SingleDeviceRunOf(spec.shape.model);
  spec.precision = Precision::kF16;
  const uint64_t seed = GENERATE(range(uint64_t{401}, uint64_t{405}));
  Plan plan = RandomPlan(seed, spec.shape, 4);
  for (size_t u = 0; u < plan.units.size(); ++u)
    plan.units[u].activations = (u + seed) % 3 == 0 ? Dtype::kF32 : Dtype::kF16;
  CAPTURE(seed, Describe(plan));
  const absl::StatusOr<TrainingRun> run = TrainUnderPlan(spec, plan, Windows(spec), nullptr, OpenMixed);
  INFO(run.status().ToString());
  REQUIRE(run.ok());
  CHECK(run->losses != single.losses);
  for (size_t i = 0; i < single.losses.size(); ++i) {
    CAPTURE(i);
    CHECK(run->losses[i] == Approx(single.losses[i]).epsilon(5e-4));
    CHECK(run->gradient_norms[i] == Approx(single.gradient_norms[i]).epsilon(2e-2));
  }
}

TEST_CASE("a loss that is not finite stops the job on every unit and updates nothing") {
  TrainingSpec spec = TinyJob();
  const StartFunction poisoned = [&](ParameterArena& arena) -> absl::Status {
    const absl::Status status = arena.Initialise(spec.seed);
    if (arena.layout().Find("ln_f.bias") == nullptr) return status;
    return arena.Write(ParameterArena::Part::kParameter, "ln_f.bias",
                       std::vector<float>(spec.shape.model.hidden, std::nanf("")));
  };
  const absl::StatusOr<TrainingRun> run =
      TrainUnderPlan(spec, RandomPlan(6, spec.shape, 4), Windows(spec), poisoned);
  CHECK(run.status().code() == absl::StatusCode::kInvalidArgument);
  CHECK_THAT(std::string(run.status().message()), Catch::Contains("not finite"));
}

}  // namespace
}  // namespace medley
