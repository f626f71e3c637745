#include "coordinator/problem/alike_hosts.h"

#include <catch2/catch.hpp>
#include <deque>

#include "absl/strings/str_cat.h"

namespace medley {
namespace {

// Of hosts; keeps what its devices are.
class Site {
 public:
  void Add(const std::string& host, const std::string& kind, std::vector<int> cores = {},
           bool emulated = false) {
    ClusterDevice& device = kept_.emplace_back();
    device.kind = kind;
    device.description.cores = std::move(cores);
    device.emulated = emulated;
    devices_.push_back({host, absl::StrCat(host, "/d", devices_.size()), &device});
  }
  const std::vector<DeviceOnHost>& devices() const { return devices_; }

 private:
  std::deque<ClusterDevice> kept_;
  std::vector<DeviceOnHost> devices_;
};

// Of devices "host/m0", "host/m1", ...
HostSlowdown Measured(const std::string& host, const std::vector<std::pair<std::string, double>>& factors,
                      double measured_at_seconds = 1) {
  HostSlowdown slowdown{.host = host, .shape = "s", .measured_at_seconds = measured_at_seconds};
  for (const auto& [kind, factor] : factors) {
    slowdown.devices.push_back({.device = absl::StrCat(host, "/m", slowdown.devices.size()),
                                .device_kind = kind,
                                .factor = factor,
                                .update_factor = 2 * factor});
  }
  return slowdown;
}

MakeUpSlowdown Found(const std::vector<HostSlowdown>& measured, const MakeUp& make_up) {
  const std::optional<MakeUpSlowdown> found = MeasuredHosts(measured, "s").Find(make_up);
  REQUIRE(found);
  return *found;
}

TEST_CASE("devices are beside each other that are real, of one host, and share no core") {
  Site site;
  site.Add("a", "gpu");
  site.Add("a", "cpu", {0, 1});
  site.Add("a", "cpu", {2});
  site.Add("a", "cpu", {2, 3});  // on a core of the one before
  site.Add("a", "emulated gpu", {}, /*emulated=*/true);
  site.Add("b", "gpu");  // alone
  const auto by_host = DevicesBesideEachOther(site.devices());
  REQUIRE(by_host.size() == 1);
  REQUIRE(by_host.at("a").size() == 2);
  CHECK(by_host.at("a")[0].name == "a/d0");
  CHECK(by_host.at("a")[1].name == "a/d1");
}

TEST_CASE("hosts of one make-up get the middle of those that were measured, of each kind") {
  const std::vector<HostSlowdown> measured = {
      Measured("a", {{"gpu", 1.2}, {"cpu", 1.5}, {"gpu", 1.4}}),  // 1.3 on average
      Measured("b", {{"cpu", 1.1}, {"gpu", 1.1}, {"gpu", 1.1}}),
      Measured("c", {{"gpu", 1.9}, {"gpu", 1.9}, {"cpu", 1.2}}), Measured("d", {{"gpu", 5}, {"cpu", 5}})};
  const MakeUpSlowdown found = Found(measured, {"cpu", "gpu", "gpu"});
  CHECK(found.devices == 3);
  CHECK(found.hosts == 3);
  CHECK(found.by_kind.at("gpu").factor == Approx(1.3));
  CHECK(found.by_kind.at("gpu").update_factor == Approx(2.6));
  CHECK(found.by_kind.at("cpu").factor == Approx(1.2));
  CHECK_FALSE(MeasuredHosts(measured, "s").Find({"gpu", "gpu"}));
  CHECK_FALSE(MeasuredHosts(measured, "another").Find({"cpu", "gpu"}));
}

TEST_CASE("hosts agree that are no further apart than their rounds, or than measurements that are repeated") {
  std::vector<HostSlowdown> measured = {Measured("a", {{"gpu", 1.2}, {"gpu", 1.2}}),
                                        Measured("b", {{"gpu", 1.21}, {"gpu", 1.21}}),
                                        Measured("c", {{"gpu", 1.22}, {"gpu", 1.22}})};
  CHECK(Found(measured, {"gpu", "gpu"}).agree);
  for (SharedSlowdown& shared : measured[2].devices) shared.factor = 1.3;
  CHECK_FALSE(Found(measured, {"gpu", "gpu"}).agree);
  for (SharedSlowdown& shared : measured[2].devices) shared.spread = 0.09;
  CHECK(Found(measured, {"gpu", "gpu"}).agree);
}

TEST_CASE("what jobs taught counts for the make-up until a host of it is measured anew") {
  std::vector<HostSlowdown> measured = {Measured("a", {{"gpu", 1.2}, {"gpu", 1.2}}, 5),
                                        Measured("b", {{"gpu", 1.2}, {"gpu", 1.2}}, 5)};
  CHECK(Found(measured, {"gpu", "gpu"}).newest_host == "a");
  for (SharedSlowdown& shared : measured[0].devices)
    shared.corrections = {{TimeClass::kPasses, {.factor = 1.1}}, {TimeClass::kUpdates, {.factor = 1.3}}};
  CHECK(Found(measured, {"gpu", "gpu"}).by_kind.at("gpu").correction == Approx(1.1));
  CHECK(Found(measured, {"gpu", "gpu"}).by_kind.at("gpu").update_correction == Approx(1.3));
  CHECK(Found(measured, {"gpu", "gpu"}).by_kind.at("gpu").factor == Approx(1.2));
  measured[1].measured_at_seconds = 6;
  CHECK(Found(measured, {"gpu", "gpu"}).newest_host == "b");
  CHECK(Found(measured, {"gpu", "gpu"}).newest_at_seconds == 6);
  CHECK(Found(measured, {"gpu", "gpu"}).by_kind.at("gpu").correction == 1);
  // Of one host the newest counts, wherever it stands.
  measured.insert(measured.begin(), Measured("a", {{"gpu", 3}, {"gpu", 3}}, 9));
  CHECK(Found(measured, {"gpu", "gpu"}).hosts == 2);
  CHECK(Found(measured, {"gpu", "gpu"}).newest_at_seconds == 9);
}

TEST_CASE("a host of which some devices are there is as it was measured with all of them") {
  Site site;
  for (const char* host : {"a", "b"}) {
    for (int d = 0; d < 2; ++d) site.Add(host, "gpu");
  }
  HostSlowdown whole = Measured("a", {{"gpu", 1.2}, {"gpu", 1.2}, {"gpu", 1.2}});
  whole.devices[0].device = "a/d0";
  whole.devices[1].device = "a/d1";
  std::vector<HostSlowdown> measured = {whole, Measured("c", {{"gpu", 1.1}, {"gpu", 1.1}})};
  auto known = SlowdownsByDevice(site.devices(), measured, "s");
  REQUIRE(known.size() == 4);
  CHECK(known.at("a/d0") == known.at("a/d1"));
  CHECK(known.at("a/d0")->devices == 3);
  CHECK(known.at("b/d2")->devices == 2);  // like c
  measured[0].devices[1].device_kind = "another";
  known = SlowdownsByDevice(site.devices(), measured, "s");
  REQUIRE(known.size() == 4);
  CHECK(known.at("a/d0") == known.at("b/d3"));
  measured.pop_back();
  CHECK(SlowdownsByDevice(site.devices(), measured, "s").empty());
}

}  // namespace
}  // namespace medley
