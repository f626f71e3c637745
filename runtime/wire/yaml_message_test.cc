#include "runtime/wire/yaml_message.h"

#include <google/protobuf/util/message_differencer.h>

#include <catch2/catch.hpp>
#include <random>

#include "proto/medley/v1/agent.pb.h"
#include "proto/medley/v1/cluster.pb.h"
#include "proto/medley/v1/config.pb.h"
#include "proto/medley/v1/coordinator.pb.h"
#include "proto/medley/v1/job.pb.h"
#include "runtime/wire/random_message.h"
#include "runtime/wire/validate.h"

namespace medley {
namespace {

const char kJob[] = R"(name: bible
model:
  gpt2:
    layers: 6
    hidden: 256
    heads: 8
data:
  train: /data/bible.txt
  order: shuffled
batch:
  sequences: 16
  sequence_length: 256
steps: 100
)";

std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

TEST_CASE("a plan's listed orders are read as text and written so that they are read again") {
  const std::string text =
      "schedule: listed\n"
      "units:\n"
      "  - devices: [a/cpu0]\n"
      "    blocks: [{first: 0, end: 3}]\n"
      "    order: F0-1 I0 W0 B1\n"
      "  - devices: [b/cpu0]\n"
      "    blocks: [{first: 3, end: 6}]\n"
      "    order: F0 I0 F1 I1 W0-1\n"
      "routes: [{units: [0, 1], micro_batches: 2, micro_batch_sequences: 4}]\n";
  v1::Plan plan;
  REQUIRE(ReadYaml(text, "plan.yaml", &plan).ToString() == "OK");
  CHECK(plan.schedule() == v1::SCHEDULE_LISTED);
  CHECK(plan.units(1).order() == "F0 I0 F1 I1 W0-1");
  v1::Plan again;
  REQUIRE(ReadYaml(WriteYaml(plan), "plan.yaml", &again).ToString() == "OK");
  CHECK(google::protobuf::util::MessageDifferencer::Equals(plan, again));
  REQUIRE(ReadYaml(Replaced(text, "schedule: listed", "schedule: zb-v"), "plan.yaml", &plan).ToString() ==
          "OK");
  CHECK(plan.schedule() == v1::SCHEDULE_ZERO_BUBBLE_V);
}

TEST_CASE("a job spec is read field by field") {
  v1::JobSpec spec;
  const std::string text = std::string(kJob) +
                           "optimizer: {learning_rate: 6e-4, decay: linear}\n"
                           "max_restarts: 0\n"
                           "seed: 18446744073709551615\n"
                           "constraints:\n"
                           "  devices: [a/cpu0, 'b/cpu0']\n"
                           "  schedules:\n"
                           "    - 1f1b\n"
                           "    - gpipe\n"
                           "plan:\n"
                           "  micro_batch_sequences: 4\n"
                           "  units:\n"
                           "    - devices: [a/cpu0]\n"
                           "      blocks: [{first: 0, end: 8}]\n"
                           "  routes: [{units: [0], micro_batches: 4}]\n"
                           "checkpoint:\n";
  const absl::Status status = ReadYaml(text, "job.yaml", &spec);
  REQUIRE(status.ToString() == "OK");
  CHECK(spec.name() == "bible");
  CHECK(spec.model().gpt2().hidden() == 256);
  CHECK(spec.data().order() == v1::ORDER_SHUFFLED);
  CHECK(spec.optimizer().learning_rate() == 6e-4);
  CHECK_FALSE(spec.optimizer().has_beta1());
  CHECK(spec.optimizer().decay() == v1::DECAY_LINEAR);
  CHECK(spec.has_max_restarts());
  CHECK(spec.seed() == 18446744073709551615u);
  CHECK(spec.constraints().devices(1) == "b/cpu0");
  CHECK(spec.constraints().schedules(0) == v1::SCHEDULE_ONE_FORWARD_ONE_BACKWARD);
  CHECK(spec.constraints().schedules(1) == v1::SCHEDULE_GPIPE);
  CHECK(spec.plan().units(0).blocks(0).end() == 8);
  CHECK(spec.has_checkpoint());
  CHECK_FALSE(spec.has_validation());
}

struct Mistake {
  std::string from, to, error;
};

TEST_CASE("a mistake is reported with its line, its field and what is allowed") {
  const Mistake mistake = GENERATE(
      Mistake{"sequences: 16", "sequence: 16",
              "11: batch.sequence: unknown key; did you mean \"sequences\"?"},
      Mistake{"steps: 100", "stepz: 100", "13: stepz: unknown key; did you mean \"steps\"?"},
      Mistake{"steps: 100", "xyzzyplugh: 100",
              "13: xyzzyplugh: unknown key; known are name, model, data, batch, steps, optimizer, precision, "
              "seed, "
              "checkpoint, validation, max_restarts, constraints, plan, allow_emulated, communication, "
              "scheduling, objective, tensorboard"},
      Mistake{"steps: 100", "steps: 0", "13: steps: 0 is not in [1, 1000000000]"},
      Mistake{"steps: 100", "steps: -1", "13: steps: -1 is not in [1, 1000000000]"},
      Mistake{"steps: 100", "steps: 99999999999", "13: steps: 99999999999 is not in [1, 1000000000]"},
      Mistake{"steps: 100", "steps: 1.5", "13: steps: 1.5 is not a whole number"},
      Mistake{"steps: 100", "steps: \"100\"", "13: steps: \"100\" is not a whole number"},
      Mistake{"steps: 100", "steps: many", "13: steps: many is not a whole number"},
      Mistake{"steps: 100", "steps:", "13: steps: has no value; give one or leave the key out"},
      Mistake{"steps: 100", "steps: [100]", "13: steps: must be one value, not a list or keys of its own"},
      Mistake{"steps: 100", "steps: 100\nsteps: 101", "14: steps: given twice, first on line 13"},
      Mistake{"steps: 100", "seed: 1", "1: steps: is required, but missing; must be in [1, 1000000000]"},
      Mistake{"  sequences: 16\n", "",
              "10: batch.sequences: is required, but missing; must be in [1, 1000000]"},
      Mistake{"  train: /data/bible.txt\n", "", "7: data.train: is required, but missing"},
      Mistake{"name: bible", "name: \"the bible\"",
              "1: name: \"the bible\" may have letters from a to z and A to Z, digits, \"-\", \"_\" and "
              "\".\" only"},
      Mistake{"name: bible", "name: bibel-für-alle",
              "1: name: \"bibel-für-alle\" may have letters from a to z and A to Z, digits, \"-\", \"_\" and "
              "\".\" only"},
      Mistake{"name: bible", "name: ..", "1: name: \"..\" has nothing but dots"},
      Mistake{"name: bible", "name: " + std::string(65, 'a'),
              "1: name: has 65 bytes; at most 64 are allowed"},
      Mistake{"shuffled", "random", "9: data.order: \"random\" is none of sequential, shuffled"},
      Mistake{"shuffled", "unspecified", "9: data.order: \"unspecified\" is none of sequential, shuffled"},
      Mistake{"steps: 100", "steps: 100\noptimizer: {beta1: 1.0}",
              "14: optimizer.beta1: 1 is not in [0, 0.9999999]"},
      Mistake{"steps: 100", "steps: 100\noptimizer:\n  learning_rate: .nan",
              "15: optimizer.learning_rate: nan is not a number"},
      Mistake{"steps: 100", "steps: 100\noptimizer:\n  learning_rate: nan",
              "15: optimizer.learning_rate: nan is not a number"},
      Mistake{"steps: 100", "steps: 100\noptimizer: 3",
              "14: optimizer: must have keys of its own (\"key: value\" lines)"},
      Mistake{"steps: 100", "steps: 100\nconstraints:\n  devices: a/cpu0",
              "15: constraints.devices: must be a list (\"[a, b]\" or \"- a\" lines)"},
      Mistake{"steps: 100", "steps: 100\nconstraints:\n  micro_batch_sizes:\n  - 1\n  - 0",
              "17: constraints.micro_batch_sizes[1]: 0 is not in [1, 65536]"},
      Mistake{"steps: 100",
              "steps: 100\nplan:\n  micro_batch_sequences: 1\n  routes: [{units: [0], micro_batches: 1}]",
              "14: plan.units: is required, but missing"},
      Mistake{"steps: 100", "steps: [100",
              "14: not valid YAML (indentation?): end of sequence flow not found"},
      Mistake{"steps: 100", "steps: 100\n---\nname: b", "1: has more than one document (\"---\")"},
      Mistake{"name: bible", "? [a, b]\n: bible", "1: a key must be a word"});
  CAPTURE(mistake.from, mistake.to);
  v1::JobSpec spec;
  const absl::Status status = ReadYaml(Replaced(kJob, mistake.from, mistake.to), "job.yaml", &spec);
  CHECK(absl::IsInvalidArgument(status));
  CHECK(std::string(status.message()) == "job.yaml:" + mistake.error);
}

TEST_CASE("sizes may be written with a unit") {
  v1::AgentConfig config;
  const auto read = [&](const std::string& size) {
    return ReadYaml("devices:\n- {name: cpu0, backend: cpu, memory_bytes: " + size + "}\n", "agent.yaml",
                    &config);
  };
  REQUIRE(read("512MiB").ok());
  CHECK(config.devices(0).memory_bytes() == 512u << 20);
  REQUIRE(read("'1.5 GiB'").ok());
  CHECK(config.devices(0).memory_bytes() == 3u << 29);
  REQUIRE(read("1048576").ok());
  CHECK(config.devices(0).memory_bytes() == 1u << 20);
  CHECK(read("1KiB").message() == "agent.yaml:2: devices[0].memory_bytes: 1024 is not at least 1048576");
  CHECK(read("lots").message() ==
        "agent.yaml:2: devices[0].memory_bytes: lots is not a whole number or a size such as 512MiB");
}

TEST_CASE("two members of a oneof are refused") {
  v1::WorkerEvent event;
  CHECK(ReadYaml("log: a\nfinished: {code: 1}\n", "event.yaml", &event).message() ==
        "event.yaml:2: finished: may not stand beside log");
}

TEST_CASE("an empty document is an empty message") {
  v1::LocalClusterConfig config;
  CHECK(ReadYaml("", "up.yaml", &config).ok());
  CHECK(ReadYaml("# nothing\n", "up.yaml", &config).ok());
  v1::JobSpec spec;
  CHECK(ReadYaml("", "job.yaml", &spec).message() == "job.yaml:1: name: is required, but missing");
}

TEST_CASE("a file that cannot be read is named") {
  v1::JobSpec spec;
  const absl::Status missing = ReadYamlFile("/nowhere/job.yaml", &spec);
  CHECK(absl::IsNotFound(missing));
  CHECK(missing.message().find("/nowhere/job.yaml") != absl::string_view::npos);
  const absl::Status folder = ReadYamlFile("/", &spec);
  CHECK(folder.message() == "cannot read /: it is a folder, not a file");
}

absl::Status ReadWith(const std::string& text, const std::vector<std::string>& sets, v1::JobSpec& spec,
                      YamlPlaces* places = nullptr) {
  std::vector<YamlOverride> overrides;
  for (const std::string& set : sets) {
    const absl::StatusOr<YamlOverride> given = ParseYamlOverride("--set", set);
    if (!given.ok()) return given.status();
    overrides.push_back(*given);
  }
  return ReadYaml(text, "job.yaml", &spec, overrides, places);
}

TEST_CASE("values are overridden, added and appended before the document is read") {
  v1::JobSpec spec;
  const std::vector<std::string> sets = {"steps=7",
                                         "optimizer.learning_rate=1e-3",
                                         "data.train=/other.txt",
                                         "constraints.devices=[a/cpu0]",
                                         "constraints.devices[1]=b/cpu0",
                                         "constraints.devices[0]=c/cpu0",
                                         "checkpoint={directory: /c, keep: 3}",
                                         "checkpoint.keep=4",
                                         "data.order=sequential"};
  REQUIRE(ReadWith(kJob, sets, spec).ToString() == "OK");
  CHECK(spec.steps() == 7);
  CHECK(spec.optimizer().learning_rate() == 1e-3);
  CHECK(spec.data().train() == "/other.txt");
  REQUIRE(spec.constraints().devices_size() == 2);
  CHECK(spec.constraints().devices(0) == "c/cpu0");
  CHECK(spec.constraints().devices(1) == "b/cpu0");
  CHECK(spec.checkpoint().directory() == "/c");
  CHECK(spec.checkpoint().keep() == 4);
  CHECK(spec.data().order() == v1::ORDER_SEQUENTIAL);
  CHECK(spec.model().gpt2().layers() == 6);
  v1::JobSpec whole;
  REQUIRE(ReadWith("",
                   {"name=a", "model.gpt2={layers: 1, hidden: 8, heads: 1}", "data.train=/x", "steps=1",
                    "batch={sequences: 1, sequence_length: 8}"},
                   whole)
              .ToString() == "OK");
  CHECK(whole.model().gpt2().hidden() == 8);
}

TEST_CASE("what is wrong with an override names it") {
  v1::JobSpec spec;
  const auto error = [&](const std::string& set) {
    return std::string(ReadWith(kJob, {set}, spec).message());
  };
  CHECK(error("steps") == "--set steps: must be FIELD=VALUE, as in optimizer.learning_rate=1e-3");
  CHECK(error("a b=1") == "--set a b=1: must be FIELD=VALUE, as in optimizer.learning_rate=1e-3");
  CHECK(error("name=für") ==
        "--set name=für: name: \"für\" may have letters from a to z and A to Z, digits, \"-\", "
        "\"_\" and \".\" only");
  CHECK(error("name=\xff").find("--set name=\\xff: ") == 0);
  CHECK(error("steps=many") == "--set steps=many: steps: many is not a whole number");
  CHECK(error("steps=0") == "--set steps=0: steps: 0 is not in [1, 1000000000]");
  CHECK(error("steps=") == "--set steps=: steps: has no value; give one or leave the key out");
  CHECK(error("steps={a").find("--set steps={a: steps: not valid YAML: ") == 0);
  CHECK(
      error("optimizer.learning_rat=1") ==
      "--set optimizer.learning_rat=1: optimizer.learning_rat: unknown key; did you mean \"learning_rate\"?");
  CHECK(error("optimizer={beta1: 2}") ==
        "--set optimizer={beta1: 2}: optimizer.beta1: 2 is not in [0, 0.9999999]");
  CHECK(error("name.first=a") == "--set name.first=a: name.first: name has no keys in the file");
  CHECK(error("constraints.devices[1]=a/b") ==
        "--set constraints.devices[1]=a/b: constraints.devices[1]: constraints.devices is a list of 0 in the "
        "file");
  CHECK(error("model.llama.layers=2") ==
        "job.yaml:2: model.llama.hidden: is required, but missing; must be in [1, 1048576]");
}

TEST_CASE("an error that is found later is located") {
  v1::JobSpec spec;
  YamlPlaces places;
  REQUIRE(ReadWith(kJob, {"optimizer.warmup_steps=101"}, spec, &places).ToString() == "OK");
  const auto located = [&](const absl::Status& status) {
    return std::string(places.Locate(status).message());
  };
  CHECK(located(absl::InvalidArgumentError("model.gpt2.heads: 5 does not divide hidden, 64")) ==
        "job.yaml:6: model.gpt2.heads: 5 does not divide hidden, 64");
  CHECK(located(absl::InvalidArgumentError("batch.missing[3].x: wrong")) ==
        "job.yaml:10: batch.missing[3].x: wrong");
  CHECK(located(absl::InvalidArgumentError("optimizer.warmup_steps: 101 is more than steps, 100")) ==
        "--set optimizer.warmup_steps=101: optimizer.warmup_steps: 101 is more than steps, 100");
  CHECK(located(absl::InvalidArgumentError("request_id: other")) == "request_id: other");
  CHECK(located(absl::InvalidArgumentError("no path at all")) == "no path at all");
  CHECK(located(absl::NotFoundError("steps: gone")) == "steps: gone");
}

template <typename Message>
void CheckRoundTrip(uint64_t seed) {
  std::mt19937_64 random(seed);
  Message message;
  FillRandomly(message, random);
  const std::string text = WriteYaml(message);
  CAPTURE(seed, text);
  REQUIRE(ValidateMessage(message).ToString() == "OK");
  Message back;
  REQUIRE(ReadYaml(text, "text", &back).ToString() == "OK");
  CHECK(google::protobuf::util::MessageDifferencer::Equals(message, back));
}

TEST_CASE("what is written reads back as the same message") {
  const uint64_t seed = GENERATE(range(uint64_t{0}, uint64_t{150}));
  CheckRoundTrip<v1::JobSpec>(seed);
  CheckRoundTrip<v1::ClusterSpec>(seed);
  CheckRoundTrip<v1::LocalClusterConfig>(seed);
  CheckRoundTrip<v1::Job>(seed);
}

TEST_CASE("a document with any byte changed is read or refused, never more") {
  const uint64_t seed = GENERATE(range(uint64_t{0}, uint64_t{1500}));
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  std::string text = kJob;
  for (size_t i = 1 + random() % 4; i > 0; --i)
    text[random() % text.size()] = static_cast<char>(random() % 128);
  v1::JobSpec spec;
  const absl::Status status = ReadYaml(text, "job.yaml", &spec);
  if (status.ok()) {
    CHECK(ValidateMessage(spec).ok());
  } else {
    CHECK(status.message().substr(0, 9) == "job.yaml:");
  }
}

}  // namespace
}  // namespace medley
