#include "coordinator/problem/alike_hosts.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "coordinator/problem/processors.h"
#include "runtime/base/quantile.h"
#include "runtime/ir/cluster/device_profile.h"

namespace medley {
namespace {

// What repeated measurements of one host differ by.
constexpr double kLeastDistance = 0.02;

MakeUp MakeUpOf(const HostSlowdown& measured) {
  MakeUp kinds;
  for (const SharedSlowdown& shared : measured.devices) kinds.push_back(shared.device_kind);
  std::sort(kinds.begin(), kinds.end());
  return kinds;
}

// What `of` says of a host's devices of a kind, on average.
template <typename Of>
double MeanOf(const HostSlowdown& measured, const std::string& kind, const Of& of) {
  double sum = 0;
  int count = 0;
  for (const SharedSlowdown& shared : measured.devices) {
    if (shared.device_kind != kind) continue;
    sum += of(shared);
    ++count;
  }
  return sum / count;
}

// `hosts`: of one make-up.
template <typename Of>
double MiddleOf(const std::vector<const HostSlowdown*>& hosts, const std::string& kind, const Of& of) {
  std::vector<double> values;
  for (const HostSlowdown* host : hosts) values.push_back(MeanOf(*host, kind, of));
  return Median(std::move(values));
}

double PassFactorOf(const SharedSlowdown& shared) { return shared.factor; }

bool IsNear(const HostSlowdown& host, const std::string& kind, double middle) {
  const double spread = MeanOf(host, kind, [](const SharedSlowdown& shared) { return shared.spread; });
  return std::abs(MeanOf(host, kind, PassFactorOf) - middle) <= std::max(spread, kLeastDistance) * middle;
}

}  // namespace

std::map<std::string, std::vector<DeviceOnHost>> DevicesBesideEachOther(
    const std::vector<DeviceOnHost>& devices) {
  std::vector<HeldCores> cores;
  for (const DeviceOnHost& device : devices) {
    HeldCores& held = cores.emplace_back(HeldCores{.host = device.host});
    for (const int core : device.device->description.cores) held.cores.push_back(static_cast<uint32_t>(core));
  }
  const std::vector<int> processors = SharedProcessors(cores);
  std::map<int, int> on_processor;
  for (const int processor : processors) ++on_processor[processor];
  std::map<std::string, std::vector<DeviceOnHost>> by_host;
  for (size_t d = 0; d < devices.size(); ++d) {
    if (on_processor[processors[d]] == 1 && !devices[d].device->emulated)
      by_host[devices[d].host].push_back(devices[d]);
  }
  std::erase_if(by_host, [](const auto& host) { return host.second.size() < 2; });
  return by_host;
}

MeasuredHosts::MeasuredHosts(absl::Span<const HostSlowdown> measured, const std::string& shape) {
  for (const HostSlowdown& slowdown : measured) {
    if (slowdown.shape != shape || slowdown.devices.size() < 2) continue;
    const HostSlowdown*& newest = by_host_.emplace(slowdown.host, &slowdown).first->second;
    if (slowdown.measured_at_seconds >= newest->measured_at_seconds) newest = &slowdown;
  }
  for (const auto& [host, slowdown] : by_host_) by_make_up_[medley::MakeUpOf(*slowdown)].push_back(slowdown);
}

bool MeasuredHosts::Covers(const std::string& host, const std::vector<DeviceOnHost>& devices) const {
  const auto own = by_host_.find(host);
  if (own == by_host_.end()) return false;
  return std::all_of(devices.begin(), devices.end(), [&](const DeviceOnHost& device) {
    return std::any_of(own->second->devices.begin(), own->second->devices.end(),
                       [&](const SharedSlowdown& shared) {
                         return shared.device == device.name && shared.device_kind == device.device->kind;
                       });
  });
}

MakeUp MeasuredHosts::MakeUpOf(const std::string& host, const std::vector<DeviceOnHost>& devices) const {
  if (Covers(host, devices)) return medley::MakeUpOf(*by_host_.at(host));
  MakeUp kinds;
  for (const DeviceOnHost& device : devices) kinds.push_back(device.device->kind);
  std::sort(kinds.begin(), kinds.end());
  return kinds;
}

std::optional<MakeUpSlowdown> MeasuredHosts::Find(const MakeUp& make_up) const {
  const auto found = by_make_up_.find(make_up);
  if (found == by_make_up_.end()) return std::nullopt;
  const std::vector<const HostSlowdown*>& hosts = found->second;
  const HostSlowdown& newest =
      **std::max_element(hosts.begin(), hosts.end(), [](const HostSlowdown* a, const HostSlowdown* b) {
        return a->measured_at_seconds < b->measured_at_seconds;
      });
  MakeUpSlowdown slowdown{.devices = static_cast<int>(make_up.size()),
                          .hosts = static_cast<int>(hosts.size()),
                          .agree = true,
                          .newest_host = newest.host,
                          .newest_at_seconds = newest.measured_at_seconds};
  for (const std::string& kind : make_up) {
    const auto [entry, is_new] = slowdown.by_kind.try_emplace(kind);
    if (!is_new) continue;
    const auto correction = [&](TimeClass times) {
      return MeanOf(newest, kind,
                    [&](const SharedSlowdown& shared) { return FactorOf(shared.corrections, times); });
    };
    entry->second = {.factor = MiddleOf(hosts, kind, PassFactorOf),
                     .update_factor = MiddleOf(hosts, kind, UpdateFactorOf),
                     .correction = correction(TimeClass::kPasses),
                     .update_correction = correction(TimeClass::kUpdates)};
    for (const HostSlowdown* host : hosts) slowdown.agree &= IsNear(*host, kind, entry->second.factor);
  }
  return slowdown;
}

std::map<std::string, std::shared_ptr<const MakeUpSlowdown>> SlowdownsByDevice(
    const std::vector<DeviceOnHost>& devices, absl::Span<const HostSlowdown> measured,
    const std::string& shape) {
  const MeasuredHosts hosts(measured, shape);
  std::map<MakeUp, std::shared_ptr<const MakeUpSlowdown>> known;  // null: nothing was measured
  std::map<std::string, std::shared_ptr<const MakeUpSlowdown>> slowdowns;
  for (const auto& [host, beside] : DevicesBesideEachOther(devices)) {
    const MakeUp make_up = hosts.MakeUpOf(host, beside);
    const auto [entry, is_new] = known.try_emplace(make_up);
    if (is_new) {
      if (std::optional<MakeUpSlowdown> found = hosts.Find(make_up))
        entry->second = std::make_shared<const MakeUpSlowdown>(*std::move(found));
    }
    if (entry->second == nullptr) continue;
    for (const DeviceOnHost& device : beside) slowdowns[device.name] = entry->second;
  }
  return slowdowns;
}

}  // namespace medley
