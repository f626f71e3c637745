#include "runtime/wire/validate.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <random>

#include "proto/medley/v1/agent.pb.h"
#include "proto/medley/v1/cluster.pb.h"
#include "proto/medley/v1/coordinator.pb.h"
#include "proto/medley/v1/job.pb.h"
#include "runtime/wire/random_message.h"

namespace medley {
namespace {

template <typename Message>
Message RandomMessage(uint64_t seed) {
  std::mt19937_64 random(seed);
  Message message;
  FillRandomly(message, random);
  return message;
}

// A random valid job spec, spoiled by `spoil`.
template <typename Spoil>
std::string ErrorOf(uint64_t seed, Spoil spoil) {
  v1::JobSpec spec = RandomMessage<v1::JobSpec>(seed);
  spoil(spec);
  return std::string(ValidateMessage(spec).message());
}

TEST_CASE("every message made of allowed values is valid") {
  const uint64_t seed = GENERATE(range(uint64_t{0}, uint64_t{200}));
  CAPTURE(seed);
  CHECK(ValidateMessage(RandomMessage<v1::JobSpec>(seed)).ToString() == "OK");
  CHECK(ValidateMessage(RandomMessage<v1::ClusterSpec>(seed)).ToString() == "OK");
  CHECK(ValidateMessage(RandomMessage<v1::PrepareRequest>(seed)).ToString() == "OK");
  CHECK(ValidateMessage(RandomMessage<v1::RegisterRequest>(seed)).ToString() == "OK");
}

TEST_CASE("one wrong value in an otherwise valid message is named") {
  const uint64_t seed = GENERATE(range(uint64_t{0}, uint64_t{50}));
  CAPTURE(seed);
  CHECK(ErrorOf(seed, [](v1::JobSpec& s) { s.mutable_batch()->set_sequences(0); }) ==
        "batch.sequences: 0 is not in [1, 1000000]");
  CHECK(ErrorOf(seed, [](v1::JobSpec& s) { s.mutable_batch()->set_sequences(1000001); }) ==
        "batch.sequences: 1000001 is not in [1, 1000000]");
  CHECK(ErrorOf(seed, [](v1::JobSpec& s) { s.clear_model(); }) == "model: is required, but missing");
  CHECK(ErrorOf(seed, [](v1::JobSpec& s) { s.set_name(""); }) == "name: is required, but empty");
  CHECK(ErrorOf(seed, [](v1::JobSpec& s) { s.set_precision(static_cast<v1::Precision>(9)); }) ==
        "precision: 9 is none of its values: f32, bf16, f16");
  CHECK(ErrorOf(seed, [](v1::JobSpec& s) { s.mutable_optimizer()->set_learning_rate(std::nan("")); }) ==
        "optimizer.learning_rate: nan is not a number");
  CHECK(ErrorOf(seed, [](v1::JobSpec& s) {
          s.mutable_optimizer()->set_learning_rate(std::numeric_limits<double>::infinity());
        }) == "optimizer.learning_rate: .inf is not in [0, 1000]");
  CHECK(ErrorOf(seed, [](v1::JobSpec& s) { s.mutable_optimizer()->set_beta1(0.99999999); }) ==
        "optimizer.beta1: 0.99999999 is not in [0, 0.9999999]");
  CHECK(ErrorOf(seed, [](v1::JobSpec& s) { s.mutable_data()->set_train(std::string(4097, 'a')); }) ==
        "data.train: has 4097 bytes; at most 4096 are allowed");
  CHECK(ErrorOf(seed, [](v1::JobSpec& s) {
          s.clear_plan();
          s.mutable_constraints()->clear_devices();
          s.mutable_constraints()->clear_schedules();
          for (int i = 0; i < 33; ++i) s.mutable_constraints()->add_micro_batch_sizes(1);
          s.mutable_constraints()->mutable_micro_batch_sizes()->Truncate(33);
        }) == "constraints.micro_batch_sizes: has 33 elements; at most 32 are allowed");
}

TEST_CASE("a value deep inside a message has its whole path") {
  v1::ClusterSpec cluster;
  v1::Node& node = *cluster.add_nodes();
  node.set_name("a");
  cluster.add_nodes()->set_name("b/c");
  CHECK(
      ValidateMessage(cluster).message() ==
      "nodes[1].name: \"b/c\" may have letters from a to z and A to Z, digits, \"-\", \"_\" and \".\" only");
  v1::Device& device = *node.add_devices();
  device.set_name("cpu0");
  device.set_backend("cpu");
  device.set_memory_bytes(100);
  device.add_cores(0);
  CHECK(ValidateMessage(cluster).message() ==
        "nodes[0].devices[0].memory_bytes: 100 is not at least 1048576");
  device.add_cores(65536);
  CHECK(ValidateMessage(cluster).message() == "nodes[0].devices[0].cores[1]: 65536 is not in [0, 65535]");
}

TEST_CASE("a map's value is named by its key") {
  v1::Node node;
  node.set_name("a");
  (*node.mutable_jobs())["cpu0"] = std::string(4097, 'a');
  CHECK(ValidateMessage(node).message() == "jobs[cpu0]: has 4097 bytes; at most 4096 are allowed");
}

TEST_CASE("an optional field's rule holds only when it is set") {
  v1::OptimizerSpec optimizer;
  CHECK(ValidateMessage(optimizer).ok());
  optimizer.set_epsilon(0);
  CHECK(ValidateMessage(optimizer).message() == "epsilon: 0 is not in [1e-16, 1]");
}

TEST_CASE("an unspecified value in a list of enums is refused") {
  v1::ConstraintSpec constraints;
  constraints.add_schedules(v1::SCHEDULE_GPIPE);
  CHECK(ValidateMessage(constraints).ok());
  constraints.add_schedules(v1::SCHEDULE_UNSPECIFIED);
  CHECK(ValidateMessage(constraints).message() ==
        "schedules[1]: must be one of one_forward_one_backward, gpipe, zero_bubble_h1, interleaved_1f1b, "
        "interleaved_gpipe, zero_bubble_v, listed");
}

TEST_CASE("a list that is required may not be empty") {
  v1::HostSlowdown slowdown;
  slowdown.set_host("a");
  slowdown.set_shape("gpt2");
  CHECK(ValidateMessage(slowdown).message() == "devices: is required, but empty");
}

}  // namespace
}  // namespace medley
