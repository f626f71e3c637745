#include "coordinator/problem/planning_problem.h"

#include <catch2/catch.hpp>
#include <random>
#include <set>

#include "coordinator/problem/processors.h"
#include "runtime/ir/model/block_sizes.h"

namespace medley {
namespace {

TrainingSpec Spec() {
  TrainingSpec spec;
  spec.shape = {{6, 256, 8, 1024, 256, 512}, 256, 4};
  return spec;
}

const char kShape[] = "gpt2 hidden=256 heads=8 ff=1024 vocabulary=256 sequence=256 precision=f32";

void AddProfile(v1::ClusterSpec& cluster, const std::string& kind, double seconds, double measured_at,
                const std::vector<int>& sizes) {
  v1::DeviceProfile& profile = *cluster.add_profiles();
  profile.set_device_kind(kind);
  profile.set_shape(kShape);
  profile.set_measured_at_seconds(measured_at);
  profile.set_update_seconds_per_parameter(seconds * 1e-6);
  profile.set_workspace_bytes(1000);
  for (const int size : sizes) {
    v1::BlockPassTimes& times = *profile.add_times();
    times.set_micro_batch_sequences(size);
    times.set_layer_forward_seconds(seconds * size);
    times.set_head_backward_seconds(seconds * size / 2);
  }
}

void AddNode(v1::ClusterSpec& cluster, const std::string& name, const std::string& host,
             const std::string& kind, const std::vector<uint32_t>& cores) {
  v1::Node& node = *cluster.add_nodes();
  node.set_name(name);
  node.set_host(host);
  v1::Device& device = *node.add_devices();
  device.set_name("cpu0");
  device.set_kind(kind);
  device.set_memory_bytes(1 << 30);
  for (const uint32_t core : cores) device.add_cores(core);
}

// Nodes a (kind fast, core 0), b (slow, core 1) and c (slow, core 1) of one host.
v1::ClusterSpec Cluster() {
  v1::ClusterSpec cluster;
  AddNode(cluster, "a", "laptop", "fast", {0});
  AddNode(cluster, "b", "laptop", "slow", {1});
  AddNode(cluster, "c", "laptop", "slow", {1});
  AddProfile(cluster, "fast", 0.01, 1, {1, 2, 4});
  AddProfile(cluster, "slow", 0.04, 1, {1, 2, 4});
  v1::LinkProfile& link = *cluster.add_links();
  link.set_a("b/cpu0");
  link.set_b("a/cpu0");
  link.set_latency_seconds(1e-6);
  link.set_bytes_per_second(1e10);
  link.set_all_reduce_bytes_per_second(5e9);
  cluster.mutable_default_link()->set_bytes_per_second(1e9);
  cluster.mutable_default_link()->set_all_reduce_bytes_per_second(1e9);
  return cluster;
}

TEST_CASE("a problem has each device's own times, memory, processor and links") {
  const absl::StatusOr<PlanningProblem> problem = MakeProblem(Spec(), {}, Cluster());
  REQUIRE(problem.status().ToString() == "OK");
  CHECK(problem->micro_batch_sizes == std::vector<int>{1, 2, 4});
  REQUIRE(problem->devices.size() == 3);
  CHECK(problem->devices[0].name == "a/cpu0");
  CHECK(problem->devices[0].times[2].layer.forward_seconds == Approx(0.04));
  CHECK(problem->devices[1].times[2].layer.forward_seconds == Approx(0.16));
  CHECK(problem->devices[1].times[0].head.backward_seconds == Approx(0.02));
  CHECK(problem->devices[2].memory == GiB(1));
  CHECK(problem->devices[2].workspace == Bytes{1000});
  CHECK(problem->devices[0].processor == 0);
  CHECK(problem->devices[1].processor == 1);
  CHECK(problem->devices[2].processor == 1);
  CHECK(problem->links[0][1] == LinkCost{LinkModel::Line(1e-6, 1e10), LinkModel::Line(1e-6, 5e9)});
  CHECK(problem->links[1][0] == problem->links[0][1]);
  CHECK(problem->links[0][2] == LinkCost{LinkModel::Line(0, 1e9), LinkModel::Line(0, 1e9)});
  for (const DeviceCost& device : problem->devices) CHECK(device.host == 0);
  CHECK(!problem->forced_all_reduce.has_value());
  CHECK(problem->wire_bytes_per_element == 4);
  CHECK(problem->constraints.schedules.size() == 2);
}

TEST_CASE("what running jobs taught multiplies a profile's passes") {
  v1::ClusterSpec cluster = Cluster();
  cluster.mutable_profiles(0)->mutable_correction()->set_factor(0.5);
  const absl::StatusOr<PlanningProblem> problem = MakeProblem(Spec(), {}, cluster);
  REQUIRE(problem.ok());
  CHECK(problem->devices[0].times[2].layer.forward_seconds == Approx(0.02));
  CHECK(problem->devices[0].times[2].head.backward_seconds == Approx(0.01));
  CHECK(problem->devices[0].update_seconds_per_parameter == Approx(0.01 * 1e-6));
  CHECK(problem->devices[1].times[2].layer.forward_seconds == Approx(0.16));
}

TEST_CASE("the gradient of the weights is a part of backward: as measured, or as its work suggests") {
  const TrainingSpec spec = Spec();
  const auto layer_of = [&](double backward_seconds, double measured_seconds) {
    v1::ClusterSpec cluster = Cluster();
    v1::BlockPassTimes& times = *cluster.mutable_profiles(0)->mutable_times(0);
    times.set_layer_backward_seconds(backward_seconds);
    times.set_layer_weight_gradient_seconds(measured_seconds);
    times.set_embedding_backward_seconds(0.25);
    cluster.mutable_profiles(0)->mutable_correction()->set_factor(2);
    const absl::StatusOr<PlanningProblem> problem = MakeProblem(spec, {}, cluster);
    REQUIRE(problem.ok());
    const BlockTimes& block = problem->devices[0].times[0];
    CHECK(block.embedding.weight_gradient_seconds == Approx(0.5));  // all that an embedding's backward does
    CHECK(block.head.weight_gradient_seconds == 0);                 // which puts nothing off
    CHECK(block.layer.backward_seconds == Approx(2 * backward_seconds));
    return block.layer.weight_gradient_seconds;
  };
  CHECK(layer_of(3, 1) == Approx(2));
  CHECK(layer_of(3, 4) == Approx(6));  // never more than backward
  const BlockWork work = WorkOf(spec.shape.model, 1, 1, spec.shape.sequence);
  const double share = work.weight_gradient.flops / work.backward().flops;
  CHECK(share > 0.3);
  CHECK(share < 0.5);
  CHECK(layer_of(3, 0) == Approx(6 * share));
}

// Devices a/cpu0 and d/cpu0 of the host, of a kind and on cores of their own, beside two that share one.
v1::ClusterSpec SlowedCluster() {
  v1::ClusterSpec cluster = Cluster();
  AddNode(cluster, "d", "laptop", "fast", {2});
  v1::HostSlowdown& slowdown = *cluster.add_slowdowns();
  slowdown.set_host("laptop");
  slowdown.set_shape(kShape);
  for (const auto& [device, kind, factor] :
       {std::tuple("a/cpu0", "fast", 1.301), std::tuple("b/cpu0", "slow", 1.5),
        std::tuple("d/cpu0", "fast", 1.213)}) {
    v1::SharedSlowdown& shared = *slowdown.add_devices();
    shared.set_device(device);
    shared.set_device_kind(kind);
    shared.set_factor(factor);
  }
  return cluster;
}

TEST_CASE("devices of a host slow each other down as was measured, equally for all of a kind") {
  v1::ClusterSpec cluster = SlowedCluster();
  const absl::StatusOr<PlanningProblem> problem = MakeProblem(Spec(), {}, cluster);
  REQUIRE(problem.status().ToString() == "OK");
  for (const int d : {0, 3}) {
    CHECK(problem->devices[d].shared_slowdown == Approx(1.26));  // hundredths
    CHECK(problem->devices[d].shared_with == 2);
  }
  for (const int d : {1, 2}) {  // on one processor: they slow each other down anyway
    CHECK(problem->devices[d].shared_slowdown == 1);
    CHECK(problem->devices[d].shared_with == 0);
  }

  v1::ClusterSpec other = cluster;
  other.mutable_slowdowns(0)->set_shape("another");
  CHECK(MakeProblem(Spec(), {}, other)->devices[0].shared_with == 0);
  other.mutable_slowdowns(0)->set_shape(kShape);
  other.mutable_slowdowns(0)->set_host("tower");
  CHECK(MakeProblem(Spec(), {}, other)->devices[0].shared_with == 0);

  for (v1::SharedSlowdown& shared : *cluster.mutable_slowdowns(0)->mutable_devices())
    shared.set_factor(1.015);
  CHECK(MakeProblem(Spec(), {}, cluster)->devices[0].shared_with == 0);  // noise
  // What jobs taught counts, also where the measurement found nothing; nobody is faster for company.
  for (v1::SharedSlowdown& shared : *cluster.mutable_slowdowns(0)->mutable_devices())
    shared.mutable_correction()->set_factor(1.2);
  CHECK(MakeProblem(Spec(), {}, cluster)->devices[0].shared_slowdown == Approx(1.22));
  for (v1::SharedSlowdown& shared : *cluster.mutable_slowdowns(0)->mutable_devices())
    shared.mutable_correction()->set_factor(0.5);
  CHECK(MakeProblem(Spec(), {}, cluster)->devices[0].shared_slowdown == 1);
}

TEST_CASE("the newest measurement counts, size by size") {
  v1::ClusterSpec cluster = Cluster();
  AddProfile(cluster, "fast", 0.02, 5, {1});
  AddProfile(cluster, "fast", 0.99, 0, {1, 2, 4});
  v1::LinkProfile newer = cluster.links(0);
  newer.set_a("a/cpu0");
  newer.set_b("b/cpu0");
  newer.set_bytes_per_second(2e10);
  newer.set_measured_at_seconds(7);
  *cluster.add_links() = newer;
  const absl::StatusOr<PlanningProblem> problem = MakeProblem(Spec(), {}, cluster);
  REQUIRE(problem.ok());
  CHECK(problem->devices[0].times[0].layer.forward_seconds == Approx(0.02));
  CHECK(problem->devices[0].times[1].layer.forward_seconds == Approx(0.02));
  CHECK(problem->links[0][1].transfer == LinkModel::Line(1e-6, 2e10));
}

TEST_CASE("a link's points are its model, and are refused by name where they make no sense") {
  v1::ClusterSpec cluster = Cluster();
  const auto add = [](google::protobuf::RepeatedPtrField<v1::LinkPoint>& points, double bytes,
                      double seconds) {
    v1::LinkPoint& point = *points.Add();
    point.set_bytes(bytes);
    point.set_seconds(seconds);
  };
  add(*cluster.mutable_links(0)->mutable_transfer(), 8, 1e-6);
  add(*cluster.mutable_links(0)->mutable_transfer(), 4096, 3e-6);
  const absl::StatusOr<PlanningProblem> problem = MakeProblem(Spec(), {}, cluster);
  REQUIRE(problem.ok());
  CHECK(problem->links[0][1].transfer == LinkModel{{{8, 1e-6}, {4096, 3e-6}}});
  CHECK(problem->links[0][1].exchange == LinkModel::Line(1e-6, 5e9));

  add(*cluster.mutable_links(0)->mutable_transfer(), 4096, 4e-6);
  const absl::Status twice = MakeProblem(Spec(), {}, cluster).status();
  CHECK(absl::IsInvalidArgument(twice));
  CHECK(twice.message() == "links[0].transfer[2].bytes: 4096 after 4096; must ascend");
  cluster.mutable_links(0)->clear_transfer();
  add(*cluster.mutable_default_link()->mutable_exchange(), 8, 2);
  add(*cluster.mutable_default_link()->mutable_exchange(), 16, 1);
  CHECK(MakeProblem(Spec(), {}, cluster).status().message() ==
        "default_link.exchange[1].seconds: 1 after 2; must not fall");
}

TEST_CASE("hosts and what the job forces of its sums are the problem's") {
  v1::ClusterSpec cluster = Cluster();
  cluster.mutable_nodes(1)->set_host("tower");
  cluster.mutable_nodes(2)->clear_host();
  TrainingSpec spec = Spec();
  spec.communication.all_reduce = CollectiveAlgorithm::kTree;
  spec.communication.gradient_wire = Precision::kBf16;
  const absl::StatusOr<PlanningProblem> problem = MakeProblem(spec, {}, cluster);
  REQUIRE(problem.ok());
  CHECK(problem->devices[0].host != problem->devices[1].host);
  CHECK(problem->devices[1].host != problem->devices[2].host);
  CHECK(problem->devices[0].host != problem->devices[2].host);
  CHECK(problem->forced_all_reduce == CollectiveAlgorithm::kTree);
  CHECK(problem->wire_bytes_per_element == 2);
}

TEST_CASE("constraints choose devices, sizes and schedules") {
  v1::ConstraintSpec constraints;
  constraints.add_devices("c/cpu0");
  constraints.add_devices("a/cpu0");
  constraints.add_micro_batch_sizes(2);
  constraints.add_schedules(v1::SCHEDULE_GPIPE);
  constraints.set_max_routes(3);
  const absl::StatusOr<PlanningProblem> problem = MakeProblem(Spec(), constraints, Cluster());
  REQUIRE(problem.ok());
  REQUIRE(problem->devices.size() == 2);
  CHECK(problem->devices[1].name == "c/cpu0");
  CHECK(problem->micro_batch_sizes == std::vector<int>{2});
  CHECK(problem->constraints.schedules == std::vector<Schedule>{Schedule::kGPipe});
  CHECK(problem->constraints.max_routes == 3);
}

TEST_CASE("what has not been measured is named") {
  v1::ClusterSpec cluster = Cluster();
  cluster.mutable_profiles()->Clear();
  AddProfile(cluster, "slow", 0.04, 1, {1, 4});
  const absl::StatusOr<std::vector<MissingProfile>> missing = MissingProfiles(Spec(), {}, cluster);
  REQUIRE(missing.ok());
  REQUIRE(missing->size() == 2);
  CHECK((*missing)[0].device == "a/cpu0");
  CHECK((*missing)[0].micro_batch_sizes == std::vector<int>{1, 2, 4});
  CHECK((*missing)[1].device_kind == "slow");
  CHECK((*missing)[1].device == "b/cpu0");
  CHECK((*missing)[1].micro_batch_sizes == std::vector<int>{2});
  const absl::Status status = MakeProblem(Spec(), {}, cluster).status();
  CHECK(absl::IsFailedPrecondition(status));
  CHECK(status.message() ==
        std::string("no profile for shape \"") + kShape +
            "\" of device kind \"fast\" (a/cpu0) with micro-batches of 1, 2, 4; \"slow\" (b/cpu0) with "
            "micro-batches of 2");
  CHECK(MissingProfiles(Spec(), {}, Cluster())->empty());
}

TEST_CASE("a pair without a link is named, unless all have the default") {
  v1::ClusterSpec cluster = Cluster();
  cluster.clear_default_link();
  const absl::Status status = MakeProblem(Spec(), {}, cluster).status();
  CHECK(absl::IsFailedPrecondition(status));
  CHECK(status.message() == "no link between \"c/cpu0\" and \"a/cpu0\", and no default_link");
}

TEST_CASE("devices that are not there are named") {
  v1::ConstraintSpec constraints;
  constraints.add_devices("d/cpu0");
  CHECK(MakeProblem(Spec(), constraints, Cluster()).status().message() ==
        "constraints.devices: \"d/cpu0\" is none of the devices there are: a/cpu0, b/cpu0, c/cpu0");
  CHECK(absl::IsFailedPrecondition(MakeProblem(Spec(), {}, {}).status()));
  v1::ClusterSpec twice = Cluster();
  *twice.add_nodes() = twice.nodes(0);
  CHECK(absl::IsInvalidArgument(MakeProblem(Spec(), {}, twice).status()));
}

TEST_CASE("emulated devices are there for rehearsals alone") {
  v1::ClusterSpec cluster = Cluster();
  cluster.mutable_nodes(1)->mutable_devices(0)->set_emulated(true);
  TrainingSpec rehearsal = Spec();
  rehearsal.allow_emulated = true;
  CHECK(MakeProblem(rehearsal, {}, cluster)->devices.size() == 3);
  const absl::StatusOr<PlanningProblem> real = MakeProblem(Spec(), {}, cluster);
  REQUIRE(real.ok());
  REQUIRE(real->devices.size() == 2);
  CHECK(real->devices[1].name == "c/cpu0");
  CHECK(*AllowedDevices(Spec(), {}, cluster) == std::vector<std::string>{"a/cpu0", "c/cpu0"});

  v1::ConstraintSpec constraints;
  constraints.add_devices("b/cpu0");
  constraints.add_devices("c/cpu0");
  CHECK(MakeProblem(rehearsal, constraints, cluster).ok());
  const absl::Status refused = MakeProblem(Spec(), constraints, cluster).status();
  CHECK(absl::IsInvalidArgument(refused));
  CHECK(refused.message() ==
        "constraints.devices: b/cpu0 is emulated and would compute nothing; a rehearsal says allow_emulated: "
        "true");

  for (v1::Node& node : *cluster.mutable_nodes()) node.mutable_devices(0)->set_emulated(true);
  const absl::Status none = MissingProfiles(Spec(), {}, cluster).status();
  CHECK(absl::IsFailedPrecondition(none));
  CHECK_THAT(std::string(none.message()), Catch::Contains("allow_emulated"));
}

TEST_CASE("a device without memory is named") {
  v1::ClusterSpec cluster = Cluster();
  cluster.mutable_nodes(2)->mutable_devices(0)->clear_memory_bytes();
  CHECK(MakeProblem(Spec(), {}, cluster).status().message() ==
        "nodes: device \"c/cpu0\" has no memory_bytes");
}

TEST_CASE("a pinned plan leaves the planner its own devices, sizes and schedule alone") {
  v1::JobSpec spec;
  spec.mutable_constraints()->add_micro_batch_sizes(1);
  CHECK(EffectiveConstraints(spec).micro_batch_sizes(0) == 1);
  spec.mutable_plan()->set_micro_batch_sequences(2);
  spec.mutable_plan()->add_units()->add_devices("b/cpu0");
  spec.mutable_plan()->add_routes();
  spec.mutable_plan()->add_routes()->set_micro_batch_sequences(6);
  const v1::ConstraintSpec constraints = EffectiveConstraints(spec);
  REQUIRE(constraints.micro_batch_sizes_size() == 2);
  CHECK(constraints.micro_batch_sizes(0) == 2);
  CHECK(constraints.micro_batch_sizes(1) == 6);
  CHECK(constraints.devices(0) == "b/cpu0");
  CHECK(constraints.schedules_size() == 0);
  spec.mutable_plan()->set_schedule(v1::SCHEDULE_GPIPE);
  CHECK(EffectiveConstraints(spec).schedules(0) == v1::SCHEDULE_GPIPE);
  // One that is not chosen is compared with all that are.
  spec.mutable_plan()->set_schedule(v1::SCHEDULE_ZERO_BUBBLE_H1);
  CHECK(EffectiveConstraints(spec).schedules_size() == 0);
}

TEST_CASE("the shape key tells apart whatever changes a block's time, and nothing else") {
  const std::string key = ShapeKey(Spec());
  CHECK(key == kShape);
  TrainingSpec deeper = Spec();
  deeper.shape.model.layers = 12;
  deeper.shape.global_batch_sequences = 64;
  CHECK(ShapeKey(deeper) == key);
  std::set<std::string> keys = {key};
  for (int ModelConfig::*member :
       {&ModelConfig::hidden, &ModelConfig::heads, &ModelConfig::feed_forward, &ModelConfig::vocabulary}) {
    TrainingSpec other = Spec();
    other.shape.model.*member *= 2;
    keys.insert(ShapeKey(other));
  }
  TrainingSpec longer = Spec();
  longer.shape.sequence = 512;
  keys.insert(ShapeKey(longer));
  TrainingSpec bf16 = Spec();
  bf16.precision = Precision::kBf16;
  keys.insert(ShapeKey(bf16));
  CHECK(keys.size() == 7);
  TrainingSpec llama = Spec();
  llama.shape.model.family = ModelFamily::kLlama;
  keys.insert(ShapeKey(llama));
  llama.shape.model.key_value_heads = 2;
  keys.insert(ShapeKey(llama));
  llama.shape.model.head_size = 64;
  keys.insert(ShapeKey(llama));
  CHECK(keys.size() == 10);
  llama.shape.model.tied_head = !llama.shape.model.tied_head;  // the same work either way
  keys.insert(ShapeKey(llama));
  CHECK(keys.size() == 10);
}

TEST_CASE("devices share a processor when a chain of shared cores joins them") {
  CHECK(SharedProcessors({{"h", {0, 1}}, {"h", {2, 3}}, {"h", {1, 2}}, {"i", {0}}, {"h", {}}}) ==
        std::vector<int>{0, 0, 0, 1, 2});
}

TEST_CASE("processors are the connected parts of the graph of shared cores") {
  const uint64_t seed = GENERATE(range(uint64_t{0}, uint64_t{300}));
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  std::vector<HeldCores> devices(1 + random() % 8);
  for (HeldCores& device : devices) {
    device.host = random() % 2 == 0 ? "h" : "i";
    for (size_t k = random() % 3; k > 0; --k) device.cores.push_back(static_cast<uint32_t>(random() % 8));
  }
  const auto meet = [&](size_t a, size_t b) {
    const std::set<uint32_t> cores(devices[a].cores.begin(), devices[a].cores.end());
    bool shared = a == b;
    for (const uint32_t core : devices[b].cores) shared = shared || cores.count(core) > 0;
    return shared && devices[a].host == devices[b].host;
  };
  // Reachability by Warshall's closure.
  const size_t n = devices.size();
  std::vector<std::vector<bool>> joined(n, std::vector<bool>(n));
  for (size_t a = 0; a < n; ++a) {
    for (size_t b = 0; b < n; ++b) joined[a][b] = meet(a, b);
  }
  for (size_t k = 0; k < n; ++k) {
    for (size_t a = 0; a < n; ++a) {
      for (size_t b = 0; b < n; ++b) joined[a][b] = joined[a][b] || (joined[a][k] && joined[k][b]);
    }
  }
  const std::vector<int> processors = SharedProcessors(devices);
  for (size_t a = 0; a < n; ++a) {
    for (size_t b = 0; b < n; ++b) CHECK((processors[a] == processors[b]) == joined[a][b]);
  }
}

}  // namespace
}  // namespace medley
