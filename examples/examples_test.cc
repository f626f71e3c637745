#include <catch2/catch.hpp>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "coordinator/problem/planning_problem.h"
#include "proto/medley/v1/config.pb.h"
#include "runtime/codec/job_codec.h"
#include "runtime/codec/yaml_message.h"

namespace medley {
namespace {

const std::vector<std::string> kJobs = {"examples/bible.yaml", "examples/gpt2-124m.yaml"};

TEST_CASE("every example is one that this test knows") {
  std::set<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator("examples")) {
    if (entry.path().extension() == ".yaml") files.insert(entry.path().string());
  }
  CHECK(files == std::set<std::string>{"examples/bible.yaml", "examples/cluster.yaml",
                                       "examples/gpt2-124m.yaml", "examples/local-cluster.yaml"});
}

TEST_CASE("the jobs are valid, and the example cluster has profiles for both") {
  const std::string file = GENERATE(from_range(kJobs));
  CAPTURE(file);
  v1::JobSpec spec;
  REQUIRE(ReadYamlFile(file, &spec).ToString() == "OK");
  const absl::StatusOr<TrainingSpec> training = DecodeJobSpec(spec, "job", std::nullopt);
  REQUIRE(training.status().ToString() == "OK");

  v1::ClusterSpec cluster;
  REQUIRE(ReadYamlFile("examples/cluster.yaml", &cluster).ToString() == "OK");
  const absl::StatusOr<PlanningProblem> problem = MakeProblem(*training, spec.constraints(), cluster);
  REQUIRE(problem.status().ToString() == "OK");
  REQUIRE(problem->devices.size() == 6);
  CHECK(problem->devices[4].processor == problem->devices[5].processor);
  CHECK(problem->devices[0].processor != problem->devices[1].processor);
}

TEST_CASE("the local cluster is three agents with one device each") {
  v1::LocalClusterConfig config;
  REQUIRE(ReadYamlFile("examples/local-cluster.yaml", &config).ToString() == "OK");
  REQUIRE(config.agents_size() == 3);
  for (const v1::AgentConfig& agent : config.agents()) CHECK(agent.devices_size() == 1);
}

}  // namespace
}  // namespace medley
