#include "coordinator/orchestrator/measurement.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/orchestrator/fake_agents.h"
#include "coordinator/orchestrator/slowdown_measurement.h"
#include "coordinator/predictor/shared_ways.h"
#include "coordinator/problem/planning_problem.h"
#include "coordinator/store/database.h"
#include "coordinator/store/store_under_test.h"
#include "runtime/base/mutex.h"
#include "runtime/wire/job_codec.h"

namespace medley {
namespace {

ClusterDeviceLocation DeviceOf(const std::string& node, const std::string& host, const std::string& kind,
                               std::vector<int> cores) {
  ClusterDeviceLocation device{.node = node, .agent_address = node + ":1", .host = host};
  device.device.description = {
      .name = "cpu-" + node, .backend = "cpu", .cores = std::move(cores), .memory_limit = GiB(1)};
  device.device.kind = kind;
  return device;
}

// A host with a fast and a slow device, and another host with a fast one.
std::vector<ClusterDeviceLocation> Devices() {
  return {DeviceOf("a", "tower", "fast", {0}), DeviceOf("b", "tower", "slow", {1}),
          DeviceOf("c", "rack", "fast", {0})};
}

struct Site {
  TemporaryDirectory directory;
  std::unique_ptr<Store> store = OpenStore(directory);
  FakeAgents agents;
  std::vector<std::string> said;
  MeasurementRequest request = {.spec = FakeJob("gpt"), .devices = Devices()};
  // The seconds of a layer, by "node" and whether others compute beside it; `nth` is for what is wrong with
  // the n-th profile of a node.
  std::function<double(const std::string& node, bool together, int nth)> layer_seconds =
      [](const std::string& node, bool, int) { return node == "b" ? 0.04 : 0.02; };
  bool takes_turns = true;                           // as agents of this version do
  bool own_memory = false;                           // of all devices
  absl::Status share_status;                         // of measuring a share
  std::set<std::string> too_small, whole_too_small;  // for whole blocks alone
  Mutex mutex;
  std::map<std::string, int> profiled ABSL_GUARDED_BY(mutex);

  Site() {
    const absl::StatusOr<TrainingSpec> training = DecodeJobSpec(request.spec, "gpt-1", std::nullopt);
    REQUIRE(training.ok());
    request.training = *training;
    agents.SetProfile([this](FakeWorker& worker) { return Profile(worker); });
  }

  absl::Status Profile(FakeWorker& worker) {
    const v1::ProfileTask& task = worker.request().profile();
    const std::string node = worker.request().device().substr(4);
    if (too_small.count(node) > 0) return absl::ResourceExhaustedError("a layer needs 4 GiB");
    if (!task.has_share() && whole_too_small.count(node) > 0)
      return absl::ResourceExhaustedError("a whole layer needs 4 GiB");
    int nth = 0;
    {
      MutexLock lock(mutex);
      if (task.together_seconds() == 0) nth = ++profiled[node];
    }
    v1::WorkerEvent event;
    if (task.together_seconds() > 0 && takes_turns) {
      v1::SharedTurns& turns = *event.mutable_shared_turns();
      const double ratio = layer_seconds(node, true, nth) / layer_seconds(node, false, nth);
      for (int round = 0; round < 4; ++round) turns.add_pass_ratios(ratio);
      turns.add_update_ratios(2 * ratio);
      worker.Say(event);
    }
    for (const uint32_t size : task.micro_batch_sizes()) {
      v1::BlockPassTimes& times = *event.mutable_profile()->add_times();
      times.set_micro_batch_sequences(size);
      times.set_layer_forward_seconds(layer_seconds(node, false, nth) * size / 3);
      times.set_layer_backward_seconds(layer_seconds(node, false, nth) * size * 2 / 3);
      times.set_spread(0.01);
    }
    event.mutable_profile()->set_device_kind(node == "b" ? "slow" : "fast");
    if (own_memory) {
      event.mutable_profile()->set_has_own_memory(true);
      event.mutable_profile()->set_fetch_bytes_per_second(1e10);
      event.mutable_profile()->set_store_bytes_per_second(1e10);
    }
    if (task.has_share() && !share_status.ok()) return share_status;
    worker.Say(event);
    return absl::OkStatus();
  }

  Measurement::Result Complete() {
    Measurement measurement(
        *store,
        [this](std::vector<AttemptTask> tasks, const AttemptRun::Callbacks& callbacks) {
          AttemptRun run(agents, std::move(tasks));
          return run.Run(callbacks);
        },
        [this](const std::string& what) { said.push_back(what); });
    return measurement.Complete(request);
  }

  bool Said(const std::string& text) const {
    return std::any_of(said.begin(), said.end(),
                       [&](const std::string& s) { return s.find(text) != std::string::npos; });
  }
};

TEST_CASE("devices of a host are measured together, each against itself alone, once") {
  Site site;
  site.layer_seconds = [](const std::string& node, bool together, int) {
    return (node == "b" ? 0.04 : 0.02) * (!together ? 1 : node == "b" ? 1.1 : 1.3);
  };
  const Measurement::Result result = site.Complete();
  REQUIRE(result.end.status.ToString() == "OK");
  REQUIRE(result.cluster.slowdowns.size() == 1);  // c is alone on its host
  const HostSlowdown& slowdown = result.cluster.slowdowns[0];
  CHECK(slowdown.host == "tower");
  CHECK(slowdown.shape == ShapeKey(site.request.training));
  REQUIRE(slowdown.devices.size() == 2);
  CHECK(slowdown.devices[0].device == "a/cpu-a");
  CHECK(slowdown.devices[0].device_kind == "fast");
  CHECK(slowdown.devices[0].factor == Approx(1.3));
  CHECK(slowdown.devices[0].update_factor == Approx(2.6));
  CHECK(slowdown.devices[0].spread == 0);  // all rounds agree
  CHECK(slowdown.devices[1].factor == Approx(1.1));
  const absl::StatusOr<PlanningProblem> problem = MakeProblem(site.request.training, {}, result.cluster);
  REQUIRE(problem.status().ToString() == "OK");
  CHECK(problem->devices[0].shared_slowdown == Approx(1.3));
  CHECK(problem->devices[0].shared_update_slowdown == Approx(2.6));
  CHECK(problem->devices[2].shared_with == 0);

  const size_t asked = site.agents.requests().size();
  REQUIRE(site.Complete().end.status.ok());
  CHECK(site.agents.requests().size() == asked);

  // Another device under an old name is measured with the others.
  site.request.devices[1].device.kind = "fast";
  REQUIRE(site.Complete().end.status.ok());
  CHECK(site.store->ListHostSlowdowns()->at(0).devices(1).device_kind() == "fast");
  // Some of those that are known together need nothing.
  site.request.devices = {Devices()[0]};
  const size_t before = site.agents.requests().size();
  REQUIRE(site.Complete().end.status.ok());
  CHECK(site.agents.requests().size() == before);
}

TEST_CASE(
    "that the store cannot be read is told as its failure, at the start and while devices are measured") {
  const std::string table = GENERATE(as<std::string>(), "device_profiles", "link_profiles", "host_slowdowns");
  const bool at_the_start = GENERATE(true, false);
  CAPTURE(table, at_the_start);
  Site site;
  // As good as a disk that cannot be read: whoever asks for the table gets an error.
  const auto rename = [&site](const std::string& from, const std::string& to) {
    absl::StatusOr<std::unique_ptr<Database>> beside =
        Database::Open(site.directory.File("medley.db"), Bytes{0});
    REQUIRE(beside.ok());
    REQUIRE((*beside)->Run(absl::StrCat("ALTER TABLE ", from, " RENAME TO ", to).c_str()).ok());
  };
  const auto seconds = site.layer_seconds;
  if (at_the_start) {
    rename(table, "away");
  } else {
    site.layer_seconds = [&, is_away = false](const std::string& node, bool together, int nth) mutable {
      if (!std::exchange(is_away, true)) rename(table, "away");
      return seconds(node, together, nth);
    };
  }
  const Measurement::Result failed = site.Complete();
  CHECK(failed.end.store_failed);
  CHECK(absl::IsUnavailable(failed.end.status));
  CHECK_THAT(std::string(failed.end.status.message()),
             Catch::StartsWith("the coordinator's store: ") && Catch::Contains(table));
  CHECK(site.agents.requests().empty() == at_the_start);
  rename("away", table);
  site.layer_seconds = seconds;
  CHECK(site.Complete().end.status.ToString() == "OK");
}

TEST_CASE("nothing that is measured beside others is faster than alone") {
  Site site;
  site.layer_seconds = [](const std::string&, bool together, int) { return together ? 0.01 : 0.02; };
  REQUIRE(site.Complete().end.status.ok());
  CHECK(site.store->ListHostSlowdowns()->at(0).devices(0).factor() == 1);
}

TEST_CASE("devices of agents that are too old to take turns count as not slowing each other down") {
  Site site;
  site.takes_turns = false;
  REQUIRE(site.Complete().end.status.ok());
  CHECK(site.store->ListHostSlowdowns()->at(0).devices(0).factor() == 1);
  CHECK(site.Said("they count as not doing so"));
}

TEST_CASE("devices of a host take turns, each at its own place") {
  Site site;
  REQUIRE(site.Complete().end.status.ok());
  std::set<uint32_t> places;
  for (const v1::PrepareRequest& request : site.agents.requests()) {
    if (!request.has_profile() || request.profile().together_seconds() == 0) continue;
    CHECK(request.profile().turn_seconds() > 0);
    CHECK(request.profile().devices_of_host() == 2);
    places.insert(request.profile().place_on_host());
  }
  CHECK(places == std::set<uint32_t>{0, 1});
}

TEST_CASE("devices count as slowing each other down as far as rounds are sure of it") {
  CHECK(FactorOf({}).factor == 1);
  CHECK(FactorOf({1.2}).factor == 1.2);
  CHECK(FactorOf({1.2, 1.21, 1.19}).factor == Approx(1.2).epsilon(0.002));
  CHECK(FactorOf({1.04, 1.24, 1.0, 1.08}).factor < 1.04);  // 1.06 with an error as large
  CHECK(FactorOf({0.8, 0.9, 0.85}).factor == 1);
  CHECK(FactorOf({1.001, 1.0005, 1.0015}).factor == 1);
  CHECK(FactorOf({1.019, 1.02, 1.021}).factor == Approx(1.02).epsilon(0.001));
  CHECK(FactorOf({1.2, 1.2, 1.2, 3.0, 1.2}).factor == Approx(1.2));  // one round was disturbed
  const uint32_t seed = Catch::rngSeed();
  CAPTURE(seed);
  std::mt19937 random(seed);
  std::normal_distribution<double> noise(0, 0.08);  // of a machine that others use, too
  int wrong = 0;
  for (int trial = 0; trial < 400; ++trial) {
    std::vector<double> none, some;
    for (int round = 0; round < 9; ++round) {
      none.push_back(1 + noise(random));
      some.push_back(1.5 + noise(random));
    }
    wrong += FactorOf(none).factor > 1.12;
    CHECK(FactorOf(some).factor == Approx(1.5).epsilon(0.12));
  }
  CHECK(wrong < 10);
}

TEST_CASE("what is planned for has the sites of its nodes") {
  Site site;
  site.request.devices[2].site = "south";
  const Measurement::Result result = site.Complete();
  REQUIRE(result.end.status.ToString() == "OK");
  const absl::StatusOr<PlanningProblem> problem = MakeProblem(site.request.training, {}, result.cluster);
  REQUIRE(problem.status().ToString() == "OK");
  CHECK(problem->devices[0].site == problem->devices[1].site);
  CHECK(problem->devices[0].site != problem->devices[2].site);
  const SharedWays ways(*problem);
  REQUIRE(ways.places(WayLevel::kSite) == 2);
  CHECK(ways.PlaceOf(WayLevel::kSite, 0) == ways.PlaceOf(WayLevel::kSite, 1));
  CHECK(ways.PlaceOf(WayLevel::kSite, 0) != ways.PlaceOf(WayLevel::kSite, 2));
  for (const int device : {0, 2})
    CHECK(ways.BytesPerSecondOf(WayLevel::kSite, ways.PlaceOf(WayLevel::kSite, device)) == Approx(1e9));
}

TEST_CASE("emulated devices and those that share a core are not measured together") {
  std::vector<ClusterDeviceLocation> devices = Devices();
  CHECK(HostsToMeasure(devices, {}, "s").size() == 1);
  devices[1].device.description.cores = {0};
  CHECK(HostsToMeasure(devices, {}, "s").empty());
  devices[1].device.description.cores = {};  // a card
  CHECK(HostsToMeasure(devices, {}, "s").size() == 1);
  devices[1].device.emulated = true;
  CHECK(HostsToMeasure(devices, {}, "s").empty());
}

TEST_CASE("devices are measured together with the largest micro-batch that is short, for many rounds") {
  const SharingDevices sharing{"tower", {Devices()[0], Devices()[1]}};
  Cluster cluster;
  for (const auto& [kind, seconds] : {std::pair("fast", 0.002), std::pair("slow", 0.006)}) {
    DeviceProfile& profile = cluster.profiles.emplace_back();
    profile.device_kind = kind;
    profile.shape = "s";
    for (const int size : {1, 2, 4, 8}) {
      ProfiledTimes& times = profile.times.emplace_back();
      times.micro_batch_sequences = size;
      times.blocks.layer.forward_seconds = seconds * size;
    }
  }
  const TogetherTask task = TogetherTaskFor(sharing, cluster, "s");
  CHECK(task.micro_batch_sequences == 4);  // two layers of the slow one take 0.048 s
  CHECK(task.turn_seconds == Approx(5 * 0.048));
  CHECK(task.seconds == Approx(48 * 3 * 5 * 0.048));
  CHECK(TogetherTaskFor(sharing, cluster, "another").micro_batch_sequences == 1);
  for (ProfiledTimes& times : cluster.profiles[1].times) times.blocks.layer.forward_seconds = 100;
  CHECK(TogetherTaskFor(sharing, cluster, "s").micro_batch_sequences == 1);
  CHECK(TogetherTaskFor(sharing, cluster, "s").turn_seconds == 2);
  CHECK(TogetherTaskFor(sharing, cluster, "s").seconds == 60);
  // None was measured that is short enough.
  cluster.profiles[1].times = {cluster.profiles[1].times[3]};
  cluster.profiles[1].times[0].blocks.layer.forward_seconds = 0.08;  // 0.16 s of two layers, eight windows
  cluster.profiles[0].times.clear();
  CHECK(TogetherTaskFor(sharing, cluster, "s").micro_batch_sequences == 2);
  CHECK(TogetherTaskFor(sharing, cluster, "s").turn_seconds == Approx(5 * 0.04));
  for (DeviceProfile& profile : cluster.profiles) {
    for (ProfiledTimes& times : profile.times) times.blocks.layer.forward_seconds = 1e-5;
  }
  CHECK(TogetherTaskFor(sharing, cluster, "s").seconds == Approx(12 * 3 * 0.05));  // nothing to be learnt
}

TEST_CASE("devices that are too small are left out with the reason") {
  Site site;
  site.too_small = {"b"};
  const Measurement::Result result = site.Complete();
  REQUIRE(result.end.status.ToString() == "OK");
  CHECK(result.cluster.nodes.size() == 2);
  REQUIRE(result.left_out.size() == 1);
  CHECK(result.left_out[0].device == "b/cpu-b");
  CHECK_THAT(result.left_out[0].why, Catch::Contains("a layer needs 4 GiB"));
  site.too_small = {"a", "b", "c"};
  CHECK(site.Complete().end.status.ok());  // a's kind is known by now
  Site none;
  none.too_small = {"a", "b", "c"};
  CHECK(absl::IsResourceExhausted(none.Complete().end.status));
}

TEST_CASE("a profile that cannot be is refused, and nothing is kept of it") {
  const auto [field, spoil] = GENERATE(table<std::string, std::function<void(v1::DeviceProfile&)>>({
      {"times[0].layer_forward_seconds: nan is not a number",
       [](v1::DeviceProfile& p) { p.mutable_times(0)->set_layer_forward_seconds(std::nan("")); }},
      {"times[0].layer_backward_seconds: -1 is not in",
       [](v1::DeviceProfile& p) { p.mutable_times(0)->set_layer_backward_seconds(-1); }},
      {"update_seconds_per_parameter: 1e+300 is not in",
       [](v1::DeviceProfile& p) { p.set_update_seconds_per_parameter(1e300); }},
      {"times[0].micro_batch_sequences: 0 is not in",
       [](v1::DeviceProfile& p) { p.mutable_times(0)->set_micro_batch_sequences(0); }},
      {"times: is required", [](v1::DeviceProfile& p) { p.clear_times(); }},
      {"device_kind: \"slow\" is not the device's, \"fast\"",
       [](v1::DeviceProfile& p) { p.set_device_kind("slow"); }},
  }));
  CAPTURE(field);
  Site site;
  site.agents.SetProfile([spoil = spoil](FakeWorker& worker) {
    v1::WorkerEvent event = MadeUpProfile(worker.request().profile());
    event.mutable_profile()->set_device_kind("fast");
    spoil(*event.mutable_profile());
    worker.Say(event);
    return absl::OkStatus();
  });
  const absl::Status refused = site.Complete().end.status;
  CHECK(absl::IsInternal(refused));
  CHECK_THAT(std::string(refused.message()), Catch::Contains("a/cpu-a") && Catch::Contains(field));
  CHECK(site.store->ListProfiles()->empty());
}

TEST_CASE("a profile that is much slower than the one before is measured again, and marked if it stays so") {
  for (const bool stays : {false, true}) {
    Site site;
    REQUIRE(site.Complete().end.status.ok());
    site.layer_seconds = [stays](const std::string& node, bool, int nth) {
      return (node == "b" ? 0.04 : 0.02) * (nth == 2 || stays ? 15 : 1);
    };
    // Sizes that are missing are measured with those that are not.
    site.request.spec.mutable_constraints()->add_micro_batch_sizes(1);
    site.request.spec.mutable_constraints()->add_micro_batch_sizes(3);
    site.request.spec.mutable_batch()->set_sequences(12);
    site.request.training.shape.global_batch_sequences = 12;
    const Measurement::Result result = site.Complete();
    REQUIRE(result.end.status.ToString() == "OK");
    CHECK(site.Said("measuring a/cpu-a again"));
    CHECK(site.Said("is doubtful") == stays);
    for (const DeviceProfile& profile : result.cluster.profiles) {
      const ProfiledTimes& times = profile.times[0];
      CHECK(times.micro_batch_sequences == 1);
      CHECK(times.doubt.empty() != stays);
      const double alone = (profile.device_kind == "slow" ? 0.04 : 0.02) * (stays ? 15 : 1);
      CHECK(times.blocks.layer.forward_seconds == Approx(alone / 3));
    }
  }
}

TEST_CASE("shares that a pinned plan names are measured, also where whole blocks do not fit") {
  Site site;
  v1::Plan& plan = *site.request.spec.mutable_plan();
  plan.set_micro_batch_sequences(1);
  v1::Unit& unit = *plan.add_units();
  unit.add_devices("a/cpu-a");
  unit.add_devices("b/cpu-b");
  const ModelConfig& model = site.request.training.shape.model;
  unit.add_blocks()->set_end(model.blocks());
  plan.add_routes()->add_units(0);
  plan.mutable_routes(0)->set_micro_batches(site.request.spec.batch().sequences());
  site.request.devices = {Devices()[0], Devices()[1]};
  site.whole_too_small = {"b"};
  const Measurement::Result result = site.Complete();
  REQUIRE(result.end.status.ToString() == "OK");
  CHECK(result.left_out.empty());
  CHECK(site.Said("b/cpu-b has no room for whole blocks"));
  const auto constraints = DecodeConstraints(site.request.spec);
  REQUIRE(constraints.status().ToString() == "OK");
  const auto problem = MakeProblem(site.request.training, *constraints, result.cluster);
  REQUIRE(problem.status().ToString() == "OK");
  CHECK(problem->devices[0].shares.size() == 1);
  CHECK_FALSE(problem->devices[0].times.empty());
  CHECK(problem->devices[1].shares.size() == 1);
  CHECK(problem->devices[1].times.empty());
  // A device that has no room for its share is a reason to refuse.
  Site small;
  small.request = site.request;
  small.too_small = {"b"};
  CHECK(absl::IsResourceExhausted(small.Complete().end.status));
}

TEST_CASE("where nothing fits with one device a unit, shares are measured: even ones, then by speed") {
  Site site;
  site.request.devices = {Devices()[0], Devices()[1]};
  site.whole_too_small = {"a", "b"};
  const Measurement::Result result = site.Complete();
  REQUIRE(result.end.status.ToString() == "OK");
  CHECK(result.left_out.empty());
  CHECK(site.Said("measuring a/cpu-a (fast) with a share of the blocks' width: nothing fits"));
  std::set<std::string> shapes;
  for (const DeviceProfile& profile : result.cluster.profiles) shapes.insert(profile.shape);
  CHECK(shapes.size() == 3);  // the half, and two unlike parts: b is half as fast
  const auto constraints = DecodeConstraints(site.request.spec);
  REQUIRE(constraints.ok());
  const auto problem = MakeProblem(site.request.training, *constraints, result.cluster);
  REQUIRE(problem.status().ToString() == "OK");
  for (const DeviceCost& device : problem->devices) {
    CHECK(device.times.empty());
    CHECK(device.shares.size() == 2);
  }
  // A third device that holds whole blocks is enough: then the others are left out.
  site.request.devices = Devices();
  site.whole_too_small = {"b"};
  const Measurement::Result with_third = site.Complete();
  REQUIRE(with_third.end.status.ToString() == "OK");
  REQUIRE(with_third.left_out.size() == 1);
  CHECK(with_third.left_out[0].device == "b/cpu-b");
}

// Four devices of a host with memory of their own, on which batches are too small for replicas.
void FourAlikeAccelerators(Site& site) {
  site.request.devices.clear();
  for (int d = 0; d < 4; ++d) {
    site.request.devices.push_back(DeviceOf("a", "tower", "fast", {d}));
    site.request.devices.back().device.description.name = absl::StrCat("gpu", d);
  }
  site.request.training.shape.global_batch_sequences = 4;
  site.own_memory = true;
}

TEST_CASE("accelerators of a host are measured with shares of the width though all fits without, once") {
  Site site;
  FourAlikeAccelerators(site);
  const Measurement::Result result = site.Complete();
  REQUIRE(result.end.status.ToString() == "OK");
  CHECK(site.Said("with a share of the blocks' width: plans may be faster with it"));
  JobConstraints constraints = *DecodeConstraints(site.request.spec);
  constraints.devices.clear();
  const auto problem = MakeProblem(site.request.training, constraints, result.cluster);
  REQUIRE(problem.status().ToString() == "OK");
  for (const DeviceCost& device : problem->devices) CHECK_FALSE(device.shares.empty());
  site.said.clear();
  REQUIRE(site.Complete().end.status.ok());
  CHECK_FALSE(site.Said("with a share"));
}

TEST_CASE("nothing is measured with shares that are not expected to make plans faster") {
  Site site;
  FourAlikeAccelerators(site);
  SECTION("devices whose memory is the host's") { site.own_memory = false; }
  SECTION("each holds the model and has sequences enough") {
    site.request.training.shape.global_batch_sequences = 8;
  }
  SECTION("what they sum takes longer than what they compute") {
    site.layer_seconds = [](const std::string&, bool, int) { return 1e-9; };
  }
  REQUIRE(site.Complete().end.status.ToString() == "OK");
  CHECK_FALSE(site.Said("with a share"));
}

TEST_CASE("a share that cannot be measured is passed over where something fits without") {
  Site site;
  FourAlikeAccelerators(site);
  site.share_status = absl::InternalError("no such kernel");
  const Measurement::Result result = site.Complete();
  REQUIRE(result.end.status.ToString() == "OK");
  CHECK(site.Said("is not planned with that share: "));
  CHECK(site.Said("no such kernel"));
}

}  // namespace
}  // namespace medley
