#include "coordinator/orchestrator/slowdown_measurement.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "coordinator/orchestrator/fake_agents.h"
#include "coordinator/problem/alike_hosts.h"
#include "coordinator/store/store_under_test.h"
#include "runtime/base/clock.h"
#include "runtime/base/mutex.h"
#include "runtime/wire/cluster_codec.h"

namespace medley {
namespace {

constexpr const char* kShape = "s";

// Hosts whose agents say what a script does.
struct Site {
  TemporaryDirectory directory;
  std::unique_ptr<Store> store = OpenStore(directory);
  FakeAgents agents;
  std::vector<ClusterDeviceLocation> devices;
  std::vector<std::string> said;
  // How many times as long passes take beside others; called while a host is measured.
  std::function<absl::StatusOr<double>(const std::string& host)> factor = [](const std::string&) {
    return 1.2;
  };

  Site() {
    agents.SetProfile([this](FakeWorker& worker) -> absl::Status {
      // Tasks know a device by its name, which is "HOST-NUMBER" here.
      const std::string& name = worker.request().device();
      const absl::StatusOr<double> ratio = factor(name.substr(0, name.find('-')));
      if (!ratio.ok()) return ratio.status();
      v1::WorkerEvent event;
      for (int round = 0; round < 4; ++round) {
        event.mutable_shared_turns()->add_pass_ratios(*ratio);
        event.mutable_shared_turns()->add_update_ratios(2 * *ratio);
      }
      worker.Say(event);
      return absl::OkStatus();
    });
  }

  void AddHosts(const std::string& prefix, int count, int devices_of_host) {
    for (int h = 0; h < count; ++h) {
      const std::string host = absl::StrCat(prefix, h);
      for (int d = 0; d < devices_of_host; ++d) {
        ClusterDeviceLocation& device = devices.emplace_back();
        device.node = device.host = host;
        device.agent_address = host + ":1";
        device.device.description.name = absl::StrCat(host, "-", d);
        device.device.kind = "gpu";
      }
    }
  }

  AttemptEnd Measure() {
    SlowdownMeasurement measurement(
        *store,
        [this](std::vector<AttemptTask> tasks, const AttemptRun::Callbacks& callbacks) {
          AttemptRun run(agents, std::move(tasks));
          return run.Run(callbacks);
        },
        [this](const std::string& what) { said.push_back(what); });
    Cluster cluster;
    cluster.slowdowns = Known();
    return measurement.Measure(FakeJob("gpt"), kShape, devices, cluster);
  }

  std::vector<HostSlowdown> Known() {
    const absl::StatusOr<std::vector<v1::HostSlowdown>> kept = store->ListHostSlowdowns();
    REQUIRE(kept.ok());
    std::vector<HostSlowdown> known;
    for (const v1::HostSlowdown& slowdown : *kept) known.push_back(DecodeSlowdown(slowdown));
    return known;
  }

  std::set<std::string> MeasuredHosts() {
    std::set<std::string> hosts;
    for (const HostSlowdown& slowdown : Known()) hosts.insert(slowdown.host);
    return hosts;
  }

  // The distinct ones of all devices; 0: of one nothing is known.
  std::set<double> Factors() {
    std::vector<DeviceOnHost> on_hosts;
    for (const ClusterDeviceLocation& device : devices)
      on_hosts.push_back({device.host, FullName(device), &device.device});
    const std::vector<HostSlowdown> known = Known();
    const auto slowdowns = SlowdownsByDevice(on_hosts, known, kShape);
    std::set<double> factors;
    for (const DeviceOnHost& device : on_hosts) {
      const auto of = slowdowns.find(device.name);
      factors.insert(of == slowdowns.end() ? 0 : of->second->by_kind.at("gpu").factor);
    }
    return factors;
  }

  int Rounds() const {
    return static_cast<int>(std::count_if(said.begin(), said.end(), [](const std::string& what) {
      return what.starts_with("measuring together ");
    }));
  }
};

TEST_CASE("of many hosts that are alike three are measured, and all get the middle of them") {
  Site site;
  site.AddHosts("h", 128, 8);
  Mutex mutex;
  std::map<std::string, double> by_host;  // 1.20, 1.21 and 1.22, as they come
  site.factor = [&](const std::string& host) {
    MutexLock lock(mutex);
    return by_host.emplace(host, 1.2 + 0.01 * static_cast<double>(by_host.size())).first->second;
  };
  REQUIRE(site.Measure().status.ToString() == "OK");
  CHECK(site.MeasuredHosts().size() == 3);
  CHECK(site.Rounds() == 1);
  CHECK(site.agents.requests().size() == 3 * 8);
  const std::set<double> factors = site.Factors();
  REQUIRE(factors.size() == 1);
  CHECK(*factors.begin() == Approx(1.21));

  REQUIRE(site.Measure().status.ok());
  site.AddHosts("new", 4, 8);
  REQUIRE(site.Measure().status.ok());
  CHECK(site.Rounds() == 1);
  CHECK(site.Factors() == factors);
}

TEST_CASE("hosts of all make-ups are measured at the same time, and those of one say nothing of another") {
  Site site;
  site.AddHosts("few", 10, 2);
  site.AddHosts("many", 2, 3);  // fewer than are wanted
  site.AddHosts("alone", 5, 1);
  constexpr int kTasks = 3 * 2 + 2 * 3;
  Mutex mutex;
  ConditionVariable changed;
  int begun = 0;
  bool all_at_once = true;
  site.factor = [&](const std::string& host) {
    MutexLock lock(mutex);
    ++begun;
    changed.NotifyAll();
    all_at_once &= changed.WaitUntil(mutex, Now() + absl::Minutes(1), [&] { return begun >= kTasks; });
    return host.starts_with("few") ? 1.1 : 1.4;
  };
  REQUIRE(site.Measure().status.ToString() == "OK");
  CHECK(all_at_once);
  CHECK(begun == kTasks);
  CHECK(site.Rounds() == 1);
  CHECK(site.MeasuredHosts().size() == 5);
  CHECK(site.MeasuredHosts().contains("many0"));
  CHECK(site.MeasuredHosts().contains("many1"));
  std::erase_if(site.devices, [](const auto& device) { return device.host.starts_with("alone"); });
  const std::set<double> factors = site.Factors();
  REQUIRE(factors.size() == 2);
  CHECK(*factors.begin() == Approx(1.1));
  CHECK(*factors.rbegin() == Approx(1.4));
}

TEST_CASE("more hosts are measured while those that should be alike do not agree, up to a limit") {
  Site site;
  site.AddHosts("h", 40, 2);
  const bool one_is_odd = GENERATE(true, false);
  Mutex mutex;
  std::map<std::string, double> by_host;
  site.factor = [&](const std::string& host) {
    MutexLock lock(mutex);
    const double next = 1.1 + (one_is_odd ? by_host.empty() ? 0.5 : 0 : 0.1 * by_host.size());
    return by_host.emplace(host, next).first->second;
  };
  REQUIRE(site.Measure().status.ToString() == "OK");
  CHECK(site.Rounds() == 3);
  CHECK(site.MeasuredHosts().size() == kMostHosts);
  const std::set<double> factors = site.Factors();
  REQUIRE(factors.size() == 1);
  CHECK(*factors.begin() == Approx(one_is_odd ? 1.1 : 1.65));
  REQUIRE(site.Measure().status.ok());
  CHECK(site.Rounds() == 3);
}

TEST_CASE("a host that has no room to be measured goes by those that are like it") {
  Site site;
  site.AddHosts("h", 9, 2);
  Mutex mutex;
  std::string too_small;
  site.factor = [&](const std::string& host) -> absl::StatusOr<double> {
    MutexLock lock(mutex);
    if (too_small.empty()) too_small = host;
    if (host == too_small) return absl::ResourceExhaustedError("a layer needs 4 GiB");
    return 1.3;
  };
  REQUIRE(site.Measure().status.ToString() == "OK");
  CHECK(site.MeasuredHosts().size() == 2);
  CHECK_FALSE(site.MeasuredHosts().contains(too_small));
  const std::set<double> factors = site.Factors();
  REQUIRE(factors.size() == 1);
  CHECK(*factors.begin() == Approx(1.3));
  CHECK(std::any_of(site.said.begin(), site.said.end(), [&](const std::string& what) {
    return what.starts_with(absl::StrCat("devices of ", too_small, " are not measured together")) &&
           what.find("a layer needs 4 GiB") != std::string::npos;
  }));

  // Where none has room no more are tried, and devices count as not slowing each other down.
  Site none;
  none.AddHosts("h", 9, 2);
  none.factor = [](const std::string&) { return absl::ResourceExhaustedError("a layer needs 4 GiB"); };
  REQUIRE(none.Measure().status.ToString() == "OK");
  CHECK(none.Rounds() == 1);
  CHECK(none.MeasuredHosts().empty());
  CHECK(none.Factors() == std::set<double>{0});
}

TEST_CASE("what was measured is kept when another host is lost meanwhile, and not measured again") {
  Site site;
  site.AddHosts("h", 3, 2);
  site.agents.TakeDown("h1:1");
  const AttemptEnd end = site.Measure();
  CHECK(absl::IsUnavailable(end.status));
  CHECK(std::any_of(end.unreachable_devices.begin(), end.unreachable_devices.end(),
                    [](const std::string& device) { return device.starts_with("h1/"); }));
  CHECK(site.MeasuredHosts() == std::set<std::string>{"h0", "h2"});
  site.agents.BringUp("h1:1");
  const size_t asked = site.agents.requests().size();
  REQUIRE(site.Measure().status.ToString() == "OK");
  CHECK(site.agents.requests().size() == asked + 2);
  CHECK(site.MeasuredHosts().size() == 3);
}

TEST_CASE("what a store has of many hosts counts for those that are alike") {
  Site site;
  site.AddHosts("h", 20, 2);
  for (int h = 0; h < 10; ++h) {
    HostSlowdown slowdown{.host = absl::StrCat("h", h), .shape = kShape, .measured_at_seconds = 1.0 + h};
    for (const char* device : {"-0", "-1"}) {
      const std::string name = absl::StrCat(slowdown.host, "/", slowdown.host, device);
      slowdown.devices.push_back({.device = name, .device_kind = "gpu", .factor = 1.2 + 0.001 * h});
    }
    REQUIRE(site.store->PutHostSlowdown(EncodeSlowdown(slowdown)).ok());
  }
  REQUIRE(site.Measure().status.ToString() == "OK");
  CHECK(site.Rounds() == 0);
  const std::set<double> factors = site.Factors();
  REQUIRE(factors.size() == 1);
  CHECK(*factors.begin() == Approx(1.2045));
}

}  // namespace
}  // namespace medley
