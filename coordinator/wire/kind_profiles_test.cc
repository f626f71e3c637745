#include "coordinator/wire/kind_profiles.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <set>

#include "coordinator/problem/planning_problem.h"

namespace medley {
namespace {

Cluster Of(const std::vector<std::string>& kinds) {
  Cluster cluster;
  ClusterNode& node = cluster.nodes.emplace_back();
  node.name = "a";
  for (const std::string& kind : kinds) {
    ClusterDevice& device = node.devices.emplace_back();
    device.description.name = "gpu" + std::to_string(node.devices.size());
    device.description.memory_limit = GiB(40);
    device.kind = kind;
  }
  cluster.default_link = LinkCost{LinkModel::Line(1e-5, 1e10), LinkModel::Line(1e-5, 1e10)};
  return cluster;
}

TrainingSpec Gpt2(Precision precision = Precision::kF16) {
  TrainingSpec spec;
  spec.shape.model = {
      .layers = 12, .hidden = 768, .heads = 12, .feed_forward = 3072, .vocabulary = 50257, .context = 1024};
  spec.shape.sequence = 1024;
  spec.shape.global_batch_sequences = 64;
  spec.precision = precision;
  return spec;
}

TEST_CASE("kinds that were not measured have profiles by their data sheets, which say so") {
  Cluster cluster = Of({"A100-80", "V100-16", "A100-80"});
  const JobConstraints constraints{.micro_batch_sizes = {1, 4}};
  REQUIRE(AddKindProfiles("profiles", Gpt2(), constraints, cluster).ToString() == "OK");
  REQUIRE(cluster.profiles.size() == 4);  // an odd vocabulary has two halves
  CHECK_THAT(cluster.profiles[0].provenance, Catch::StartsWith("not measured: data sheet of A100-80"));
  CHECK(cluster.profiles[0].basis == PredictionBasis::kOtherShapes);
  const absl::StatusOr<PlanningProblem> problem = MakeProblem(Gpt2(), constraints, cluster);
  REQUIRE(problem.status().ToString() == "OK");
  const double fast = problem->devices[0].times[1].layer.Seconds(),
               slow = problem->devices[1].times[1].layer.Seconds();
  CHECK(fast > 0);
  // Both A100 together, which is half of the width each; there is one V100.
  REQUIRE(problem->devices[0].shares.size() == 2);
  CHECK(problem->devices[1].shares.empty());
  const ShareCost& half = problem->devices[0].shares[0];
  CHECK(half.share == AtOrigin(EvenShares(Gpt2().shape.model, 2)[0]));
  CHECK(half.times[1].layer.Seconds() > 0.5 * fast);
  CHECK(half.times[1].layer.Seconds() < fast);
  CHECK(problem->devices[0].fetch_bytes_per_second == Approx(0.75 * 31.5e9));
  CHECK(problem->devices[1].store_bytes_per_second == Approx(0.75 * 15.75e9));
  // 312 against 125 TFLOP/s of matmuls at best, by what the same software made of them.
  CHECK(slow > 1.2 * fast);
  CHECK(slow < 4 * fast);
  // What is there is kept.
  cluster.profiles[0].provenance = "measured";
  REQUIRE(AddKindProfiles("profiles", Gpt2(), constraints, cluster).ok());
  CHECK(cluster.profiles.size() == 4);
  CHECK(cluster.profiles[0].provenance == "measured");
}

TEST_CASE("coefficients are of the software that most kinds were measured with, else of the most rows") {
  const auto software_of = [](const std::vector<std::string>& kinds) {
    Cluster cluster = Of(kinds);
    REQUIRE(AddKindProfiles("profiles", Gpt2(), {.micro_batch_sizes = {1}}, cluster).ok());
    return cluster.profiles[0].provenance;
  };
  CHECK_THAT(software_of({"A100-40"}), Catch::Contains("megatron-lm, one node"));
  CHECK_THAT(software_of({"A100-40", "V100-16"}), Catch::Contains("layers of zorse"));
  CHECK_THAT(software_of({"A100-80", "H100-80"}), Catch::Contains("composer fsdp"));
}

TEST_CASE("devices that do not compute in the job's precision have f32's times, and say so") {
  Cluster cluster = Of({"A100-80", "V100-16"});
  const JobConstraints constraints{.micro_batch_sizes = {4}};
  const auto layer_seconds = [&](Precision precision) {
    Cluster with = cluster;
    REQUIRE(AddKindProfiles("profiles", Gpt2(precision), constraints, with).ToString() == "OK");
    CHECK(with.nodes[0].devices[0].computes == ComputedPrecisions{.bf16 = true, .f16 = true});
    CHECK(with.nodes[0].devices[1].computes == ComputedPrecisions{.f16 = true});
    CHECK((with.profiles.back().provenance.find("here f32") != std::string::npos) ==
          (precision == Precision::kBf16));
    const absl::StatusOr<PlanningProblem> problem = MakeProblem(Gpt2(precision), constraints, with);
    REQUIRE(problem.status().ToString() == "OK");
    return std::pair(problem->devices[0].times[0].layer.Seconds(),
                     problem->devices[1].times[0].layer.Seconds());
  };
  const auto [fast_bf16, slow_bf16] = layer_seconds(Precision::kBf16);
  const auto [fast_f16, slow_f16] = layer_seconds(Precision::kF16);
  CHECK(fast_bf16 == fast_f16);
  CHECK(slow_bf16 > 3 * slow_f16);  // 15.7 and 125 TFLOP/s of products
}

TEST_CASE("a file without f32's rate is refused where its devices compute the job in that") {
  const std::filesystem::path directory = std::filesystem::temp_directory_path() / "kinds_without_f32";
  std::filesystem::create_directories(directory);
  std::ofstream(directory / "K.yaml") << R"(kind: K
matmul_flops_per_second: 1e14
memory_bytes_per_second: 1e12
node_link_bytes_per_second: 1e11
memory_bytes: 16GiB
source: {title: t, licence: l, date: "2026-01"}
calibrations:
  - {software: s, fitted_on: {title: t, licence: l, date: "2026-01"}, rows: 1, error_mean: 0.1}
)";
  Cluster cluster = Of({"K"});
  CHECK_THAT(
      std::string(
          AddKindProfiles(directory, Gpt2(Precision::kBf16), {.micro_batch_sizes = {1}}, cluster).message()),
      Catch::Contains("K.yaml: matmul_f32_flops_per_second: 0 is not positive") && Catch::Contains("bf16"));
  CHECK(cluster.profiles.empty());
}

TEST_CASE("alike devices know the same shares, however many of an odd width there are") {
  Cluster cluster = Of(std::vector<std::string>(8, "A100-80"));
  const JobConstraints constraints{.micro_batch_sizes = {1, 4}};
  REQUIRE(AddKindProfiles("profiles", Gpt2(), constraints, cluster).ToString() == "OK");
  const absl::StatusOr<PlanningProblem> problem = MakeProblem(Gpt2(), constraints, cluster);
  REQUIRE(problem.status().ToString() == "OK");
  // Of 2, 4 and 8 devices, by heads and rows
  for (const DeviceCost& device : problem->devices) {
    REQUIRE(device.shares.size() == 7);
    for (size_t s = 0; s < 7; ++s) {
      CHECK(device.shares[s].share == problem->devices[0].shares[s].share);
      CHECK(device.shares[s].times == problem->devices[0].shares[s].times);
    }
  }
}

TEST_CASE("a kind that no file is of stays without, and a directory that is not there is named") {
  Cluster cluster = Of({"A100-80", "abacus"});
  REQUIRE(AddKindProfiles("profiles", Gpt2(), {.micro_batch_sizes = {1}}, cluster).ok());
  CHECK(cluster.profiles.size() == 1);
  CHECK_THAT(std::string(MakeProblem(Gpt2(), {.micro_batch_sizes = {1}}, cluster).status().message()),
             Catch::Contains("abacus"));
  CHECK(AddKindProfiles("nowhere", Gpt2(), {}, cluster) ==
        absl::InvalidArgumentError("--kinds: \"nowhere\" is not a directory"));
}

TEST_CASE("a data sheet is found by its name in any case, or by what only its name begins with") {
  for (const char* name : {"L4-24", "l4-24", "L4", "l4"}) {
    CAPTURE(name);
    const absl::StatusOr<KindSheet> sheet = ReadKindSheet("profiles", name);
    REQUIRE(sheet.status().ToString() == "OK");
    CHECK(sheet->device.kind == "L4-24");
    CHECK(sheet->device.description.memory_limit == GiB(24));
  }
  CHECK(ReadKindSheet("profiles", "a100").status() ==
        absl::InvalidArgumentError("kind: \"a100\" may be A100-40, A100-80; name one of them"));
  CHECK(ReadKindSheet("profiles", "A100-80")->device.kind == "A100-80");
  // More than up to a dash.
  CHECK_THAT(
      std::string(ReadKindSheet("profiles", "A1").status().message()),
      Catch::StartsWith("kind: no device is a \"A1\", and profiles has no file of it; there are A100-40, "));
  CHECK(ReadKindSheet("nowhere", "L4").status() ==
        absl::InvalidArgumentError("--kinds: \"nowhere\" is not a directory"));
}

TEST_CASE("where only some kinds are to have profiles by their data sheets, others stay without") {
  Cluster cluster = Of({"A100-80", "V100-16"});
  REQUIRE(AddKindProfiles("profiles", Gpt2(), {.micro_batch_sizes = {1}}, cluster,
                          std::set<std::string>{"V100-16"})
              .ok());
  REQUIRE(cluster.profiles.size() == 1);
  CHECK(cluster.profiles[0].device_kind == "V100-16");
}

}  // namespace
}  // namespace medley
