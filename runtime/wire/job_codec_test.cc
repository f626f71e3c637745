#include "runtime/wire/job_codec.h"

#include <catch2/catch.hpp>
#include <random>

#include "runtime/wire/random_message.h"

namespace medley {
namespace {

v1::JobSpec SmallJob() {
  v1::JobSpec spec;
  spec.set_name("small");
  v1::Gpt2Spec& model = *spec.mutable_model()->mutable_gpt2();
  model.set_layers(2);
  model.set_hidden(64);
  model.set_heads(4);
  spec.mutable_data()->set_train("/data/train");
  spec.mutable_batch()->set_sequences(12);
  spec.mutable_batch()->set_sequence_length(32);
  spec.set_steps(10);
  return spec;
}

TEST_CASE("what is left out is filled in as the proto says") {
  const absl::StatusOr<TrainingSpec> spec = DecodeJobSpec(SmallJob(), "small-1", std::nullopt);
  REQUIRE(spec.status().ToString() == "OK");
  CHECK(spec->job_name == "small");
  CHECK(spec->shape.model == ModelConfig{2, 64, 4, 256, 256, 32});
  CHECK(spec->shape.sequence == 32);
  CHECK(spec->shape.global_batch_sequences == 12);
  CHECK(spec->hugging_face_directory.empty());
  CHECK(spec->data_format == TokenFormat::kAutomatic);
  CHECK(spec->data_order == DataOrder::kSequential);
  CHECK(spec->steps == 10);
  CHECK(spec->optimizer.learning_rate == 6e-4);
  CHECK(spec->optimizer.minimum_learning_rate == Approx(6e-5));
  CHECK(spec->optimizer.warmup_steps == 0);
  CHECK(spec->optimizer.decay == Decay::kCosine);
  CHECK(spec->optimizer.beta1 == 0.9);
  CHECK(spec->optimizer.beta2 == 0.95);
  CHECK(spec->optimizer.epsilon == 1e-8);
  CHECK(spec->optimizer.weight_decay == 0.1);
  CHECK(spec->optimizer.clip_norm == 1);
  CHECK(spec->precision == Precision::kF32);
  CHECK(spec->checkpoint_directory.empty());
  CHECK(spec->checkpoint_every_steps == 100);
  CHECK(spec->checkpoint_keep == 2);
  CHECK(spec->validate_every_steps == 0);
  CHECK(spec->validation_batches == 1);
  CHECK(spec->max_restarts == 3);
  CHECK(spec->optimizer.skip_non_finite == 0);
  CHECK(spec->resume_from.empty());
  CHECK_FALSE(spec->communication.all_reduce.has_value());
  CHECK(spec->communication.gradient_wire == Precision::kF32);
  CHECK(spec->communication.device_memory == DeviceMemoryStrategy::kAutomatic);
}

TEST_CASE("how devices talk can be forced, one thing without the others") {
  v1::JobSpec spec = SmallJob();
  spec.mutable_communication()->set_all_reduce(v1::ALL_REDUCE_ALGORITHM_TREE);
  CHECK(DecodeJobSpec(spec, "", std::nullopt)->communication.all_reduce == CollectiveAlgorithm::kTree);
  CHECK(DecodeJobSpec(spec, "", std::nullopt)->communication.gradient_wire == Precision::kF32);
  spec.mutable_communication()->clear_all_reduce();
  spec.mutable_communication()->set_gradient_wire(v1::PRECISION_BF16);
  CHECK_FALSE(DecodeJobSpec(spec, "", std::nullopt)->communication.all_reduce.has_value());
  CHECK(DecodeJobSpec(spec, "", std::nullopt)->communication.gradient_wire == Precision::kBf16);
  spec.mutable_communication()->set_device_memory(v1::DEVICE_MEMORY_STRATEGY_WHOLE);
  CHECK(DecodeJobSpec(spec, "", std::nullopt)->communication.device_memory == DeviceMemoryStrategy::kWhole);
  CHECK(DecodeJobSpec(spec, "", std::nullopt)->communication.message_protection == MessageProtection::kNone);
  spec.mutable_communication()->set_message_protection(v1::MESSAGE_PROTECTION_ENCRYPTION);
  CHECK(DecodeJobSpec(spec, "", std::nullopt)->communication.message_protection ==
        MessageProtection::kEncryption);
  v1::JobSpec direct = spec;
  direct.mutable_communication()->set_device_memory(v1::DEVICE_MEMORY_STRATEGY_DIRECT);
  CHECK_THAT(std::string(DecodeJobSpec(direct, "", std::nullopt).status().message()),
             Catch::Contains("communication.device_memory: direct") && Catch::Contains("encryption"));
  spec.mutable_communication()->set_all_reduce(static_cast<v1::AllReduceAlgorithm>(77));
  const absl::Status status = DecodeJobSpec(spec, "", std::nullopt).status();
  CHECK(absl::IsInvalidArgument(status));
  CHECK_THAT(std::string(status.message()), Catch::Contains("communication.all_reduce") &&
                                                Catch::Contains("77") && Catch::Contains("halving_doubling"));
}

TEST_CASE("what is given is taken") {
  v1::JobSpec spec = SmallJob();
  spec.mutable_data()->set_validation("/data/val");
  spec.mutable_data()->set_format(v1::TOKEN_FORMAT_LLMC);
  spec.mutable_data()->set_order(v1::ORDER_SHUFFLED);
  spec.mutable_checkpoint()->set_directory("/checkpoints");
  spec.mutable_optimizer()->set_learning_rate(0.1);
  spec.mutable_optimizer()->set_clip_norm(0);
  spec.mutable_optimizer()->set_decay(v1::DECAY_LINEAR);
  spec.set_precision(v1::PRECISION_BF16);
  spec.set_max_restarts(0);
  spec.mutable_optimizer()->set_skip_non_finite(7);
  spec.mutable_checkpoint()->set_resume_from("/checkpoints/other-1/step-00000120");
  const absl::StatusOr<TrainingSpec> decoded = DecodeJobSpec(spec, "small-1", std::nullopt);
  REQUIRE(decoded.ok());
  CHECK(decoded->validation_file == "/data/val");
  CHECK(decoded->validate_every_steps == 100);
  CHECK(decoded->data_format == TokenFormat::kLlmC);
  CHECK(decoded->data_order == DataOrder::kShuffled);
  CHECK(decoded->checkpoint_directory == "/checkpoints/small-1");
  CHECK(decoded->optimizer.minimum_learning_rate == Approx(0.01));
  CHECK(decoded->optimizer.clip_norm == 0);
  CHECK(decoded->optimizer.decay == Decay::kLinear);
  CHECK(decoded->precision == Precision::kBf16);
  CHECK(decoded->max_restarts == 0);
  CHECK(decoded->optimizer.skip_non_finite == 7);
  CHECK(decoded->resume_from == "/checkpoints/other-1/step-00000120");
}

TEST_CASE("a rehearsal is one that says so, and saves nothing") {
  v1::JobSpec spec = SmallJob();
  CHECK_FALSE(DecodeJobSpec(spec, "a", std::nullopt)->allow_emulated);
  spec.set_allow_emulated(true);
  CHECK(DecodeJobSpec(spec, "a", std::nullopt)->allow_emulated);
  spec.mutable_checkpoint()->set_directory("/checkpoints");
  const absl::Status status = DecodeJobSpec(spec, "a", std::nullopt).status();
  CHECK(absl::IsInvalidArgument(status));
  CHECK_THAT(std::string(status.message()),
             Catch::StartsWith("checkpoint.directory: \"/checkpoints\" is given"));
}

TEST_CASE("a model of Hugging Face has the dimensions of its config") {
  v1::JobSpec spec = SmallJob();
  spec.mutable_model()->clear_gpt2();
  spec.mutable_model()->set_hugging_face("/models/gpt2");
  const ModelConfig config{12, 768, 12, 3072, 50257, 1024};
  const absl::StatusOr<TrainingSpec> decoded = DecodeJobSpec(spec, "a", config);
  REQUIRE(decoded.ok());
  CHECK(decoded->shape.model == config);
  CHECK(decoded->hugging_face_directory == "/models/gpt2");
  CHECK(absl::IsFailedPrecondition(DecodeJobSpec(spec, "a", std::nullopt).status()));
}

struct Mistake {
  void (*spoil)(v1::JobSpec&);
  std::string error;
};

TEST_CASE("fields that do not go together are refused by name") {
  const Mistake mistake = GENERATE(
      Mistake{[](v1::JobSpec& s) { s.mutable_model()->mutable_gpt2()->set_heads(5); },
              "model.gpt2.heads: 5 does not divide hidden, 64"},
      Mistake{[](v1::JobSpec& s) { s.mutable_model()->clear_gpt2(); },
              "model: has none; exactly one of gpt2, llama and hugging_face is allowed"},
      Mistake{[](v1::JobSpec& s) { s.mutable_model()->set_hugging_face("/m"); },
              "model: has gpt2 and hugging_face; exactly one of gpt2, llama and hugging_face is allowed"},
      Mistake{[](v1::JobSpec& s) { s.mutable_model()->mutable_gpt2()->set_context(31); },
              "batch.sequence_length: 32 is more than the model's context, 31"},
      Mistake{
          [](v1::JobSpec& s) {
            s.mutable_model()->mutable_gpt2()->set_vocabulary(65537);
            s.mutable_data()->set_format(v1::TOKEN_FORMAT_UINT16);
          },
          "model.gpt2.vocabulary: 65537 is too large for tokens of 16 bits; at most 65536, or data.format "
          "uint32"},
      Mistake{[](v1::JobSpec& s) {
                s.mutable_model()->mutable_gpt2()->set_vocabulary(255);
                s.mutable_data()->set_format(v1::TOKEN_FORMAT_TEXT);
              },
              "model.gpt2.vocabulary: 255 is too small for text; at least 256"},
      Mistake{[](v1::JobSpec& s) { s.mutable_optimizer()->set_minimum_learning_rate(0.5); },
              "optimizer.minimum_learning_rate: 0.5 is more than learning_rate, 6e-04"},
      Mistake{[](v1::JobSpec& s) { s.mutable_optimizer()->set_warmup_steps(11); },
              "optimizer.warmup_steps: 11 is more than steps, 10"},
      Mistake{[](v1::JobSpec& s) { s.mutable_validation()->set_every_steps(5); },
              "validation.every_steps: 5 is given, but data.validation is not"},
      Mistake{[](v1::JobSpec& s) { s.mutable_constraints()->add_micro_batch_sizes(5); },
              "constraints.micro_batch_sizes[0]: 5 does not divide batch.sequences, 12"},
      Mistake{[](v1::JobSpec& s) {
                s.mutable_constraints()->add_schedules(v1::SCHEDULE_GPIPE);
                s.mutable_constraints()->add_schedules(v1::SCHEDULE_ZERO_BUBBLE_H1);
              },
              "constraints.schedules[1]: zb-h1 is run where a plan names it, not chosen; "
              "one_forward_one_backward, gpipe and listed are chosen from"},
      Mistake{[](v1::JobSpec& s) { s.mutable_constraints()->add_schedules(v1::SCHEDULE_LISTED); },
              "constraints.schedules: listed alone; passes are put in order for plans that were found with "
              "one_forward_one_backward or gpipe, so name one of them, too"},
      Mistake{[](v1::JobSpec& s) { s.mutable_constraints()->add_devices("cpu0"); },
              "constraints.devices[0]: \"cpu0\" is not of the form node/device"},
      Mistake{[](v1::JobSpec& s) {
                s.mutable_constraints()->add_devices("a/cpu0");
                s.mutable_constraints()->add_devices("a/cpu0");
              },
              "constraints.devices[1]: \"a/cpu0\" is named twice"},
      Mistake{[](v1::JobSpec& s) { s.mutable_batch()->set_sequences(0); },
              "batch.sequences: 0 is not in [1, 1000000]"},
      Mistake{[](v1::JobSpec& s) { s.mutable_data()->set_train("x.txt"); },
              "data.train: \"x.txt\" is not an absolute path; nodes read it under the same path everywhere"},
      Mistake{[](v1::JobSpec& s) { s.mutable_data()->set_validation("./x.txt"); },
              "data.validation: \"./x.txt\" is not an absolute path; nodes read it under the same path "
              "everywhere"},
      Mistake{[](v1::JobSpec& s) { s.mutable_checkpoint()->set_directory("~/checkpoints"); },
              "checkpoint.directory: \"~/checkpoints\" is not an absolute path; nodes read it under the same "
              "path everywhere"},
      Mistake{[](v1::JobSpec& s) { s.mutable_checkpoint()->set_resume_from("step-1"); },
              "checkpoint.resume_from: \"step-1\" is not an absolute path; nodes read it under the same path "
              "everywhere"},
      Mistake{[](v1::JobSpec& s) {
                s.mutable_model()->clear_gpt2();
                s.mutable_model()->set_hugging_face("gpt2");
              },
              "model.hugging_face: \"gpt2\" is not an absolute path; nodes read it under the same path "
              "everywhere"},
      Mistake{
          [](v1::JobSpec& s) {
            s.set_allow_emulated(true);
            s.mutable_checkpoint()->set_resume_from("/c/step-1");
          },
          "checkpoint.resume_from: \"/c/step-1\" is given, but a job with allow_emulated computes nothing; "
          "leave one of them out"},
      Mistake{[](v1::JobSpec& s) {
                s.mutable_scheduling()->set_least_devices(3);
                s.mutable_scheduling()->set_most_devices(2);
              },
              "scheduling.least_devices: 3 is more than scheduling.most_devices, 2"},
      Mistake{[](v1::JobSpec& s) {
                s.mutable_scheduling()->set_least_devices(2);
                s.mutable_constraints()->add_devices("a/cpu0");
              },
              "scheduling.least_devices: 2 is more than constraints.devices names, 1"},
      Mistake{[](v1::JobSpec& s) { s.mutable_scheduling()->set_priority(1001); },
              "scheduling.priority: 1001 is not in [-1000, 1000]"});
  v1::JobSpec spec = SmallJob();
  mistake.spoil(spec);
  const absl::Status status = DecodeJobSpec(spec, "a", std::nullopt).status();
  CHECK(absl::IsInvalidArgument(status));
  CHECK(std::string(status.message()) == mistake.error);
}

v1::JobSpec PinnedJob(uint32_t micro_batch, uint32_t end) {
  v1::JobSpec spec = SmallJob();
  v1::Plan& plan = *spec.mutable_plan();
  plan.set_micro_batch_sequences(micro_batch);
  v1::Unit& unit = *plan.add_units();
  unit.add_devices("a/cpu0");
  unit.add_blocks()->set_end(end);
  v1::Route& route = *plan.add_routes();
  route.add_units(0);
  route.set_micro_batches(3);
  return spec;
}

TEST_CASE("a pinned plan is held against the batch and the model") {
  CHECK(DecodeJobSpec(PinnedJob(4, 4), "a", std::nullopt).ok());
  CHECK(DecodeConstraints(PinnedJob(4, 4))->micro_batch_sizes == std::vector<int>{4});
  CHECK(DecodeJobSpec(PinnedJob(5, 4), "a", std::nullopt).status().message() ==
        "plan.routes: take 3 x 5 = 15 sequences (micro_batches x micro_batch_sequences); must be the global "
        "batch of 12");
  CHECK(DecodeJobSpec(PinnedJob(4, 5), "a", std::nullopt).status().message() ==
        "plan.units[0].blocks[0].end: 5 is more than the model's 4 blocks");
  v1::JobSpec wide = PinnedJob(4, 4);
  for (const char* device : {"b/cpu0", "c/cpu0", "d/cpu0"})
    wide.mutable_plan()->mutable_units(0)->add_devices(device);
  CHECK(DecodeJobSpec(wide, "a", std::nullopt).ok());
  wide.mutable_plan()->mutable_units(0)->add_devices("e/cpu0");
  CHECK(DecodeJobSpec(wide, "a", std::nullopt).status().message() ==
        "plan.units[0].devices: 5; the model has 4 heads, so at most 4");
}

TEST_CASE("each route of a pinned plan may have a micro-batch size of its own") {
  v1::JobSpec spec = PinnedJob(2, 4);  // three of two
  v1::Unit& unit = *spec.mutable_plan()->add_units();
  unit.add_devices("b/cpu0");
  unit.add_blocks()->set_end(4);
  v1::Route& route = *spec.mutable_plan()->add_routes();
  route.add_units(1);
  route.set_micro_batches(1);
  route.set_micro_batch_sequences(6);
  REQUIRE(DecodeJobSpec(spec, "a", std::nullopt).status().ToString() == "OK");
  CHECK(DecodeConstraints(spec)->micro_batch_sizes == std::vector<int>{2, 6});
  route.set_micro_batch_sequences(5);  // does not divide the batch, nor need it
  spec.mutable_plan()->mutable_routes(0)->set_micro_batches(7);
  spec.mutable_plan()->mutable_routes(0)->set_micro_batch_sequences(1);
  CHECK(DecodeJobSpec(spec, "a", std::nullopt).ok());
  spec.mutable_plan()->clear_micro_batch_sequences();
  CHECK(DecodeJobSpec(spec, "a", std::nullopt).ok());
  route.clear_micro_batch_sequences();
  CHECK(DecodeJobSpec(spec, "a", std::nullopt).status().message() ==
        "plan.routes[1].micro_batch_sequences: is missing, and the plan has none for all routes");
}

TEST_CASE("a pinned plan that cannot run on any cluster is refused when it is submitted") {
  const auto error = [](const v1::JobSpec& spec) {
    return std::string(DecodeJobSpec(spec, "a", std::nullopt).status().message());
  };
  v1::JobSpec few = PinnedJob(4, 4);
  few.mutable_plan()->mutable_routes(0)->set_micro_batches(2);
  CHECK(error(few) ==
        "plan.routes: take 2 x 4 = 8 sequences (micro_batches x micro_batch_sequences); must be the global "
        "batch of 12");
  CHECK(error(PinnedJob(4, 3)) == "plan.routes[0]: covers blocks [0, 3); must cover [0, 4)");
  v1::JobSpec hole = PinnedJob(4, 2);
  v1::Unit& second = *hole.mutable_plan()->add_units();
  second.add_devices("b/cpu0");
  second.add_blocks()->set_first(3);
  second.mutable_blocks(0)->set_end(4);
  hole.mutable_plan()->mutable_routes(0)->add_units(1);
  CHECK(error(hole) == "plan.routes[0]: unit 1 holds blocks [3, 4); one of its ranges must begin at 2");
  second.mutable_blocks(0)->set_first(2);
  CHECK(error(hole).empty());
  second.set_activations(v1::TENSOR_TYPE_F16);
  CHECK(error(hole) ==
        "plan.units[1].activations: f16, must be f32 or bf16 in a job of precision f32, whose loss is not "
        "scaled");
  hole.set_precision(v1::PRECISION_F16);
  CHECK(error(hole).empty());
  second.clear_activations();
  hole.clear_precision();
  hole.mutable_scheduling()->set_most_devices(1);
  CHECK(error(hole) == "scheduling.most_devices: 1 is less than the devices of plan, 2");
  second.set_devices(0, "a/cpu0");
  CHECK_THAT(error(hole), Catch::StartsWith("plan.units[1].devices: \"a/cpu0\" is already in units[0]"));
}

TEST_CASE("a plan is chosen from what the constraints name") {
  v1::JobSpec spec = SmallJob();
  CHECK(DecodeConstraints(spec)->schedules.empty());
  v1::ConstraintSpec& constraints = *spec.mutable_constraints();
  constraints.add_devices("a/cpu0");
  for (const uint32_t size : {6, 3, 6}) constraints.add_micro_batch_sizes(size);
  for (const v1::Schedule schedule :
       {v1::SCHEDULE_GPIPE, v1::SCHEDULE_ONE_FORWARD_ONE_BACKWARD, v1::SCHEDULE_GPIPE})
    constraints.add_schedules(schedule);
  constraints.set_max_routes(3);
  constraints.set_max_stages(2);
  constraints.set_most_price_per_hour(7.5);
  constraints.set_most_devices(9);
  constraints.set_deadline_seconds(3600);
  const absl::StatusOr<JobConstraints> decoded = DecodeConstraints(spec);
  REQUIRE(decoded.ok());
  CHECK(decoded->devices == std::vector<std::string>{"a/cpu0"});
  CHECK(CandidateMicroBatches(*decoded, 12) == std::vector<int>{3, 6});
  CHECK(decoded->schedules == std::vector<Schedule>{Schedule::kGPipe, Schedule::kOneForwardOneBackward});
  CHECK(decoded->max_routes == 3);
  CHECK(decoded->max_stages == 2);
  CHECK(decoded->most_price_per_hour == 7.5);
  CHECK(decoded->most_devices == 9);
  CHECK(decoded->deadline_seconds == 3600);
  CHECK(decoded->objective == Objective::kThroughput);
  CHECK_FALSE(decoded->plan.has_value());
  constraints.add_schedules(v1::SCHEDULE_LISTED);
  CHECK(DecodeJobSpec(spec, "", std::nullopt).status().ToString() == "OK");
  CHECK(DecodeConstraints(spec)->schedules.back() == Schedule::kListed);
  constraints.add_schedules(static_cast<v1::Schedule>(9));
  CHECK(DecodeConstraints(spec).status().message() == "schedule: 9 is none of its values");
}

TEST_CASE("a pinned plan leaves the planner its own devices, sizes and schedule alone") {
  v1::JobSpec spec;
  spec.mutable_constraints()->add_micro_batch_sizes(1);
  CHECK(DecodeConstraints(spec)->micro_batch_sizes == std::vector<int>{1});
  spec.mutable_plan()->set_micro_batch_sequences(2);
  spec.mutable_plan()->add_units()->add_devices("b/cpu0");
  spec.mutable_plan()->add_routes();
  spec.mutable_plan()->add_routes()->set_micro_batch_sequences(6);
  const absl::StatusOr<JobConstraints> constraints = DecodeConstraints(spec);
  REQUIRE(constraints.status().ToString() == "OK");
  CHECK(constraints->micro_batch_sizes == std::vector<int>{2, 6});
  CHECK(constraints->devices == std::vector<std::string>{"b/cpu0"});
  CHECK(constraints->schedules.empty());
  CHECK(constraints->plan->units.size() == 1);
  CHECK(constraints->open_activations == std::vector<int>{0});
  spec.mutable_plan()->mutable_units(0)->set_activations(v1::TENSOR_TYPE_F32);
  CHECK(DecodeConstraints(spec)->open_activations.empty());
  spec.mutable_plan()->set_schedule(v1::SCHEDULE_GPIPE);
  CHECK(DecodeConstraints(spec)->schedules == std::vector<Schedule>{Schedule::kGPipe});
  // One that is not chosen is compared with all that are.
  spec.mutable_plan()->set_schedule(v1::SCHEDULE_ZERO_BUBBLE_H1);
  CHECK(DecodeConstraints(spec)->schedules.empty());
}

TEST_CASE("any valid message is decoded or refused, and what is decoded holds together") {
  const uint64_t seed = GENERATE(range(uint64_t{0}, uint64_t{500}));
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  v1::JobSpec spec = SmallJob();
  v1::JobSpec noise;
  FillRandomly(noise, random);
  // Parts that are right by chance too seldom stay as they are.
  if (random() % 2 == 0) *spec.mutable_optimizer() = noise.optimizer();
  if (random() % 2 == 0) *spec.mutable_batch() = noise.batch();
  if (random() % 2 == 0) *spec.mutable_data() = noise.data();
  if (random() % 2 == 0) *spec.mutable_model() = noise.model();
  if (random() % 2 == 0) *spec.mutable_communication() = noise.communication();
  const absl::StatusOr<TrainingSpec> decoded = DecodeJobSpec(spec, "a", std::nullopt);
  if (!decoded.ok()) {
    CHECK_FALSE(decoded.status().message().empty());
    return;
  }
  CHECK(decoded->shape.sequence <= decoded->shape.model.context);
  CHECK(decoded->shape.model.feed_forward > 0);
  CHECK(decoded->optimizer.minimum_learning_rate <= decoded->optimizer.learning_rate);
  CHECK(decoded->optimizer.warmup_steps <= decoded->steps);
}

}  // namespace
}  // namespace medley
