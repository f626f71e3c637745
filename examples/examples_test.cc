#include <catch2/catch.hpp>
#include <filesystem>
#include <set>
#include <string>

#include "agent/profile/layer_calibration.h"
#include "coordinator/problem/planning_problem.h"
#include "kernels/emulated/emulated_backend.h"
#include "kernels/emulated/emulation_profile.h"
#include "proto/medley/v1/config.pb.h"
#include "runtime/daemon/grpc_server.h"
#include "runtime/ir/model/parameters.h"
#include "runtime/security/test_certificates.h"
#include "runtime/wire/address.h"
#include "runtime/wire/cluster_codec.h"
#include "runtime/wire/job_codec.h"
#include "runtime/wire/yaml_message.h"

namespace medley {
namespace {

TEST_CASE("every example is one that this test knows") {
  std::set<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator("examples")) {
    if (entry.path().extension() == ".yaml") files.insert(entry.path().string());
  }
  CHECK(files == std::set<std::string>{"examples/agent.yaml", "examples/bible.yaml", "examples/cluster.yaml",
                                       "examples/coordinator.yaml", "examples/emulated-a100.yaml",
                                       "examples/emulated-cluster.yaml", "examples/emulated-l4.yaml",
                                       "examples/gpt2-124m.yaml", "examples/large-cluster.yaml",
                                       "examples/llama-bible.yaml", "examples/local-cluster.yaml",
                                       "examples/pinned-plan.yaml", "examples/rehearsal.yaml"});
}

v1::JobSpec ReadJob(const std::string& file) {
  v1::JobSpec spec;
  REQUIRE(ReadYamlFile(file, &spec).ToString() == "OK");
  return spec;
}

TEST_CASE("the example cluster has profiles for the GPT-2 jobs") {
  const std::string file = GENERATE(as<std::string>(), "examples/bible.yaml", "examples/gpt2-124m.yaml");
  CAPTURE(file);
  const v1::JobSpec spec = ReadJob(file);
  const absl::StatusOr<TrainingSpec> training = DecodeJobSpec(spec, "job", std::nullopt);
  REQUIRE(training.status().ToString() == "OK");

  v1::ClusterSpec cluster;
  REQUIRE(ReadYamlFile("examples/cluster.yaml", &cluster).ToString() == "OK");
  const absl::StatusOr<Cluster> decoded = DecodeCluster(cluster);
  REQUIRE(decoded.status().ToString() == "OK");
  const absl::StatusOr<PlanningProblem> problem = MakeProblem(*training, *DecodeConstraints(spec), *decoded);
  REQUIRE(problem.status().ToString() == "OK");
  REQUIRE(problem->devices.size() == 6);
  CHECK(problem->devices[4].processor == problem->devices[5].processor);
  CHECK(problem->devices[0].processor != problem->devices[1].processor);
}

TEST_CASE("the large example cluster is a thousand devices whose links are those of three ends") {
  const v1::JobSpec spec = ReadJob("examples/gpt2-124m.yaml");
  const absl::StatusOr<TrainingSpec> training = DecodeJobSpec(spec, "job", std::nullopt);
  REQUIRE(training.status().ToString() == "OK");
  v1::ClusterSpec cluster;
  REQUIRE(ReadYamlFile("examples/large-cluster.yaml", &cluster).ToString() == "OK");
  const absl::StatusOr<Cluster> decoded = DecodeCluster(cluster);
  REQUIRE(decoded.status().ToString() == "OK");
  const absl::StatusOr<PlanningProblem> problem = MakeProblem(*training, *DecodeConstraints(spec), *decoded);
  REQUIRE(problem.status().ToString() == "OK");
  CHECK(problem->devices.size() == 1024);
  CHECK(problem->links.ends() == 3);
  CHECK(problem->links.Between(0, 1023).transfer.LatencySeconds() == 2e-3);
}

TEST_CASE("the pinned plan is one for its job, on devices of the local cluster") {
  const v1::JobSpec spec = ReadJob("examples/pinned-plan.yaml");
  CHECK(DecodeJobSpec(spec, "job", std::nullopt).status().ToString() == "OK");
  v1::LocalClusterConfig cluster;
  REQUIRE(ReadYamlFile("examples/local-cluster.yaml", &cluster).ToString() == "OK");
  std::set<std::string> devices;
  for (const v1::AgentConfig& agent : cluster.agents()) {
    for (const auto& device : agent.devices()) devices.insert(agent.name() + "/" + device.name());
  }
  for (const v1::Unit& unit : spec.plan().units()) {
    for (const std::string& device : unit.devices()) CHECK(devices.count(device) == 1);
  }
}

TEST_CASE("a cluster of several machines listens where others can connect") {
  v1::CoordinatorConfig coordinator;
  REQUIRE(ReadYamlFile("examples/coordinator.yaml", &coordinator).ToString() == "OK");
  v1::AgentConfig agent;
  REQUIRE(ReadYamlFile("examples/agent.yaml", &agent).ToString() == "OK");
  for (const std::string& address : {coordinator.listen_address(), agent.listen_address()}) {
    CHECK(CompleteAddress("listen_address", address, kCoordinatorPort, AnyPort::kAllowed).ok());
    CHECK_THAT(address, !Catch::StartsWith("127."));
  }
  const absl::StatusOr<std::string> dialled =
      CompleteAddress("coordinator_address", agent.coordinator_address(), kCoordinatorPort);
  REQUIRE(dialled.ok());
  CHECK(dialled->substr(dialled->rfind(':')) ==
        coordinator.listen_address().substr(coordinator.listen_address().rfind(':')));
  CHECK_FALSE(agent.advertise_address().empty());
}

TEST_CASE("a cluster of several machines shows certificates where others can connect") {
  const TestCertificates certificates;
  v1::CoordinatorConfig coordinator;
  REQUIRE(ReadYamlFile("examples/coordinator.yaml", &coordinator).ToString() == "OK");
  v1::AgentConfig agent;
  REQUIRE(ReadYamlFile("examples/agent.yaml", &agent).ToString() == "OK");
  const auto check = [&](const auto& config, v1::Role role) {
    CAPTURE(config.ShortDebugString());
    // Where README says that the folder of `medley certs issue` goes.
    CHECK(config.tls().certificate() == "/etc/medley/tls/certificate.pem");
    CHECK(config.tls().key() == "/etc/medley/tls/key.pem");
    CHECK(config.tls().authority() == "/etc/medley/tls/authority.pem");
    const v1::TlsConfig tls = certificates.Issue(role);
    const absl::Status checked = CheckServer({.listen_address = config.listen_address(),
                                              .tls = config.has_tls() ? &tls : nullptr,
                                              .http_address = config.http_address(),
                                              .insecure = config.insecure()});
    CHECK(checked.ToString() == "OK");
  };
  check(coordinator, v1::ROLE_COORDINATOR);
  check(agent, v1::ROLE_AGENT);
}

TEST_CASE("the GPT job is of the size that it says") {
  const absl::StatusOr<TrainingSpec> training =
      DecodeJobSpec(ReadJob("examples/bible.yaml"), "job", std::nullopt);
  REQUIRE(training.ok());
  // Rounded: 3.3 million.
  CHECK((ModelElements(training->shape.model) + 50'000) / 100'000 == 33);
}

TEST_CASE("the Llama job is valid, and of the size that it says") {
  const v1::JobSpec spec = ReadJob("examples/llama-bible.yaml");
  const absl::StatusOr<TrainingSpec> training = DecodeJobSpec(spec, "job", std::nullopt);
  REQUIRE(training.status().ToString() == "OK");
  CHECK(training->shape.model.family == ModelFamily::kLlama);
  CHECK(ModelElements(training->shape.model) / 100'000 == 28);
}

TEST_CASE("the emulated devices take the times that their profiles have measured") {
  v1::LocalClusterConfig config;
  REQUIRE(ReadYamlFile("examples/emulated-cluster.yaml", &config).ToString() == "OK");
  REQUIRE(config.agents_size() == 3);
  for (const v1::AgentConfig& agent : config.agents()) {
    REQUIRE(agent.devices_size() == 2);
    for (const v1::Device& device : agent.devices()) {
      CAPTURE(device.profile());
      const absl::StatusOr<EmulationProfile> profile = ReadEmulationProfile(device.profile());
      REQUIRE(profile.status().ToString() == "OK");
      absl::StatusOr<Device> opened = EmulatedBackend().open({.name = "gpu0",
                                                              .backend = "emulated",
                                                              .memory_limit = profile->memory,
                                                              .profile = device.profile()});
      REQUIRE(opened.status().ToString() == "OK");
      CHECK(CalibrateEmulation(*opened).ToString() == "OK");
    }
  }
}

TEST_CASE("the rehearsal is of the layer that the emulated devices have measured") {
  const absl::StatusOr<TrainingSpec> spec =
      DecodeJobSpec(ReadJob("examples/rehearsal.yaml"), "job", std::nullopt);
  REQUIRE(spec.status().ToString() == "OK");
  CHECK(spec->allow_emulated);
  const ModelConfig& model = spec->shape.model;
  for (const std::string file : {"examples/emulated-a100.yaml", "examples/emulated-l4.yaml"}) {
    const absl::StatusOr<EmulationProfile> profile = ReadEmulationProfile(file);
    REQUIRE(profile.ok());
    for (const MeasuredLayer& layer : profile->layers) {
      CHECK(layer.hidden == model.hidden);
      CHECK(layer.feed_forward == model.feed_forward);
      CHECK(layer.key_value_heads == model.key_value_head_count());
      CHECK(layer.sequence == spec->shape.sequence);
      CHECK(layer.precision == spec->precision);
    }
  }
}

TEST_CASE("the local cluster is three agents with one device each") {
  v1::LocalClusterConfig config;
  REQUIRE(ReadYamlFile("examples/local-cluster.yaml", &config).ToString() == "OK");
  REQUIRE(config.agents_size() == 3);
  for (const v1::AgentConfig& agent : config.agents()) CHECK(agent.devices_size() == 1);
}

}  // namespace
}  // namespace medley
