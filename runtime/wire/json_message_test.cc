#include "runtime/wire/json_message.h"

#include <catch2/catch.hpp>
#include <random>

#include "nlohmann/json.hpp"
#include "proto/medley/v1/coordinator.pb.h"
#include "proto/medley/v1/job.pb.h"
#include "runtime/wire/random_message.h"
#include "runtime/wire/yaml_message.h"

namespace medley {
namespace {

using nlohmann::json;

TEST_CASE("enums are words, whole numbers are numbers where every reader can hold them") {
  v1::Job job;
  job.set_state(v1::JOB_STATE_DONE);
  job.set_parameters(uint64_t{1} << 53);
  job.set_launch((uint64_t{1} << 53) + 1);
  const json object = json::parse(JsonOf(job));
  CHECK(object["state"] == "done");
  CHECK(object["parameters"] == 9007199254740992);
  CHECK(object["parameters"].is_number());
  CHECK(object["launch"] == "9007199254740993");
  CHECK(object["id"] == "");
  CHECK(object["held"] == false);
  CHECK(object["tasks"] == json::array());
  CHECK(object.count("spec") == 0);
  job.set_state(v1::JOB_STATE_UNSPECIFIED);
  CHECK(json::parse(JsonOf(job))["state"] == "unspecified");
}

TEST_CASE("maps are objects, what is optional is there only if it is set") {
  v1::Node node;
  (*node.mutable_jobs())["cpu0"] = "bible-1";
  node.add_devices()->set_name("cpu0");
  json object = json::parse(JsonOf(node));
  CHECK(object["jobs"] == json({{"cpu0", "bible-1"}}));
  CHECK(object["devices"][0].count("memory_bytes") == 0);
  node.mutable_devices(0)->set_memory_bytes(0);
  object = json::parse(JsonOf(node));
  CHECK(object["devices"][0]["memory_bytes"] == 0);
}

TEST_CASE("numbers that are not finite and texts that are no UTF-8 are still JSON") {
  v1::StepMetrics step;
  step.set_loss(std::numeric_limits<double>::quiet_NaN());
  step.set_gradient_norm(-std::numeric_limits<double>::infinity());
  step.set_step_seconds(0.1);
  const json object = json::parse(JsonOf(step));
  CHECK(object["loss"] == "nan");
  CHECK(object["gradient_norm"] == "-inf");
  CHECK(object["step_seconds"] == 0.1);
  CHECK(JsonString("caf\xe9 \"x\"\n") == "\"caf\xEF\xBF\xBD \\\"x\\\"\\n\"");
}

TEST_CASE("a job spec's JSON without what is unspecified reads back as the spec") {
  const uint64_t seed = GENERATE(range(uint64_t{0}, uint64_t{100}));
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  v1::OptimizerSpec spec, back;
  FillRandomly(spec, random);
  json object = json::parse(JsonOf(spec));
  if (object["decay"] == "unspecified") object.erase("decay");
  REQUIRE(ReadYaml(object.dump(), "text", &back).ToString() == "OK");
  CHECK(back.SerializeAsString() == spec.SerializeAsString());
}

}  // namespace
}  // namespace medley
