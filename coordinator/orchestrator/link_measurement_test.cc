#include "coordinator/orchestrator/link_measurement.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>

#include "absl/strings/str_cat.h"
#include "coordinator/orchestrator/fake_agents.h"
#include "coordinator/orchestrator/link_table.h"
#include "coordinator/store/store_under_test.h"
#include "runtime/base/clock.h"

namespace medley {
namespace {

// "machine/device" each, of one kind.
std::vector<ClusterDeviceLocation> DevicesOn(const std::vector<std::string>& machines) {
  std::vector<ClusterDeviceLocation> devices;
  for (const std::string& machine : machines) {
    ClusterDeviceLocation& device = devices.emplace_back();
    device.node = device.host = machine;
    device.agent_address = machine + ":1";
    device.device.description.name = absl::StrCat("gpu", devices.size());
    device.device.kind = "h100";
  }
  return devices;
}

struct Site {
  TemporaryDirectory directory;
  std::unique_ptr<Store> store = OpenStore(directory);
  FakeAgents agents;
  std::vector<std::string> said;

  AttemptEnd Measure(const std::vector<ClusterDeviceLocation>& devices,
                     LinkMeasurement::What what = LinkMeasurement::What::kMissing) {
    LinkMeasurement measurement(
        *store,
        [this](std::vector<AttemptTask> tasks, const AttemptRun::Callbacks& callbacks) {
          AttemptRun run(agents, std::move(tasks));
          return run.Run(callbacks);
        },
        [this](const std::string& what_is_measured) { said.push_back(what_is_measured); });
    return measurement.Measure(devices, what);
  }
  double Speed(const ClusterDeviceLocation& a, const ClusterDeviceLocation& b) {
    const std::optional<v1::LinkProfile> link = LinkTable(*store->ListLinks()).Between(a, b);
    return link ? link->bytes_per_second() : 0;
  }
};

// How often each device was probed as the first of two.
std::map<std::string, int> Probed(FakeAgents& agents) {
  std::map<std::string, int> counts;
  for (const v1::PrepareRequest& request : agents.requests()) {
    if (request.probe().rank() == 0) ++counts[request.device()];
  }
  return counts;
}

TEST_CASE("one link of each kind is measured, once, and answers for the others") {
  Site site;
  const auto devices = DevicesOn({"a", "a", "b", "b", "b"});
  REQUIRE(site.Measure(devices).status.ok());
  CHECK(site.agents.probes() == 2 * 3);  // inside a, inside b, between them
  CHECK(site.Speed(devices[1], devices[4]) == 1e9);
  CHECK(site.Speed(devices[3], devices[4]) == 1e9);
  REQUIRE(site.Measure(devices).status.ok());
  CHECK(site.agents.probes() == 2 * 3);
  REQUIRE(site.Measure(devices, LinkMeasurement::What::kAll).status.ok());
  CHECK(site.agents.probes() == 4 * 3);
}

TEST_CASE("a link that another was measured for says which, and has its own ends") {
  Site site;
  const auto devices = DevicesOn({"a", "b", "b"});
  REQUIRE(site.Measure(devices).status.ok());
  const LinkTable table(*site.store->ListLinks());
  CHECK(table.Between(devices[1], devices[0])->measured_between() == "");
  const std::optional<v1::LinkProfile> other = table.Between(devices[2], devices[0]);
  REQUIRE(other);
  CHECK(other->a() == "b/gpu3");
  CHECK(other->b() == "a/gpu1");
  CHECK(other->measured_between() == "a/gpu1 - b/gpu2");
  CHECK(other->transport() == "made up");
  int known = 0;
  const auto count = [&](const v1::LinkProfile&) { return ++known < 3; };
  table.ForEachAmong(DevicesOn({"a", "c"}), count);
  CHECK(known == 0);
  table.ForEachAmong(devices, count);
  CHECK(known == 3);
  table.ForEachAmong(devices, count);
  CHECK(known == 4);  // enough after the first
}

TEST_CASE("links without a machine in common are measured at the same time") {
  Site site;
  Mutex mutex;
  ConditionVariable changed;
  std::map<uint64_t, int> attempts;
  site.agents.SetProbe([&](FakeWorker& worker) -> absl::Status {
    MutexLock lock(mutex);
    ++attempts[worker.request().attempt()];
    changed.NotifyAll();
    if (!changed.WaitUntil(mutex, Now() + absl::Seconds(20), [&] { return attempts.size() >= 2; })) {
      return absl::DeadlineExceededError("the other link was not measured meanwhile");
    }
    worker.Say(LinkOf(1e-5, 1e9));
    return absl::OkStatus();
  });
  const AttemptEnd end = site.Measure(DevicesOn({"a", "a", "b", "b"}));
  INFO(end.status.ToString());
  CHECK(end.status.ok());
  REQUIRE(site.said.size() == 2);
  CHECK(site.said[0] == "measuring the links a/gpu1 - a/gpu2, b/gpu3 - b/gpu4");
  CHECK(site.said[1] == "measuring the link a/gpu1 - b/gpu3");
}

TEST_CASE("links that slow each other down somewhere in the network are measured alone") {
  Site site;
  const bool shared = GENERATE(true, false);
  CAPTURE(shared);
  Mutex mutex;
  std::map<std::string, int> probes;  // of the first device, so far
  site.agents.SetProbe([&](FakeWorker& worker) -> absl::Status {
    if (worker.request().probe().rank() != 0) return absl::OkStatus();
    MutexLock lock(mutex);
    const bool again = probes[worker.request().device()]++ > 0;
    // A pair that is probed twice is alone the second time.
    worker.Say(LinkOf(1e-5, shared && !again ? 0.5e9 : 1e9));
    return absl::OkStatus();
  });
  const auto devices = DevicesOn({"a", "b", "c", "d"});
  const std::vector<ClusterDeviceLocation> first = {devices[0], devices[1]},
                                           second = {devices[2], devices[3]};
  // Two pairs of four machines, the others known.
  std::vector<v1::LinkProfile> known;
  for (size_t i = 0; i < 2; ++i) {
    for (size_t j = 2; j < 4; ++j) {
      v1::LinkProfile link;
      link.set_a(FullName(devices[i]));
      link.set_b(FullName(devices[j]));
      link.set_kind(LinkKind(devices[i], devices[j]));
      link.set_bytes_per_second(1);
      REQUIRE(site.store->PutLink(link).ok());
    }
  }
  REQUIRE(site.Measure(devices).status.ok());
  CHECK(site.Speed(first[0], first[1]) == 1e9);
  CHECK(site.Speed(second[0], second[1]) == 1e9);
  const std::map<std::string, int> counts = Probed(site.agents);
  REQUIRE(counts.size() == 2);
  std::vector<int> times;
  for (const auto& [device, count] : counts) times.push_back(count);
  std::sort(times.begin(), times.end());
  CHECK(times == (shared ? std::vector<int>{2, 2} : std::vector<int>{1, 2}));  // the slowest is tried alone
}

TEST_CASE("a probe that fails names its device, and what was measured beside it is kept") {
  Site site;
  const auto devices = DevicesOn({"a", "a", "b", "b"});
  site.agents.SetProbe([&](FakeWorker& worker) -> absl::Status {
    if (worker.request().device() == "gpu4") return absl::ResourceExhaustedError("no memory");
    worker.Say(LinkOf(1e-5, 1e9));
    return absl::OkStatus();
  });
  const AttemptEnd end = site.Measure(devices);
  CHECK(absl::IsResourceExhausted(end.status));
  CHECK_THAT(std::string(end.status.message()), Catch::Contains("b/gpu4"));
  CHECK(site.Speed(devices[0], devices[1]) == 1e9);
}

TEST_CASE("a measurement that is none is refused, and nothing is kept of it") {
  Site site;
  const int wrong = GENERATE(0, 1, 2);
  CAPTURE(wrong);
  site.agents.SetProbe([&](FakeWorker& worker) -> absl::Status {
    v1::WorkerEvent event = LinkOf(1e-5, 1e9);
    if (wrong == 0) event.mutable_link()->set_bytes_per_second(0);
    if (wrong == 1) {
      event.mutable_link()->add_transfer()->set_bytes(10);
      event.mutable_link()->add_transfer()->set_bytes(5);
    }
    if (wrong != 2) worker.Say(event);
    return absl::OkStatus();
  });
  const AttemptEnd end = site.Measure(DevicesOn({"a", "b"}));
  CHECK(absl::IsInternal(end.status));
  CHECK_THAT(std::string(end.status.message()), Catch::Contains("a/gpu1 - b/gpu2"));
  CHECK(site.store->ListLinks()->empty());
}

}  // namespace
}  // namespace medley
