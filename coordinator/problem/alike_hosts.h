#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "runtime/ir/cluster/cluster.h"
#include "runtime/ir/cluster/host_slowdown.h"

// What is known of how devices of a host slow each other down. Hosts with the same kinds of devices are taken to be
// alike: a few of them are measured, and all get the same, so that their devices are alike to the planner, too. Pure.
namespace medley {

struct DeviceOnHost {
  std::string host;  // HostSlowdown::host
  std::string name;  // "node/device"
  const ClusterDevice* device = nullptr;
};

// By host those of `devices` that may slow each other down: real ones, each on cores of its own; two or more.
std::map<std::string, std::vector<DeviceOnHost>> DevicesBesideEachOther(
    const std::vector<DeviceOnHost>& devices);

// The kinds of such devices of a host, ascending, each as often as there are devices of it.
using MakeUp = std::vector<std::string>;

// How many times as long a device of one kind takes beside the others of a host.
struct KindSlowdown {
  double factor = 1, update_factor = 1;          // SharedSlowdown's, as measured: the middle of the hosts
  double correction = 1, update_correction = 1;  // by which jobs that ran on such hosts showed it to be more
};

// What was measured on hosts of one make-up.
struct MakeUpSlowdown {
  int devices = 0;  // of each of them
  std::map<std::string, KindSlowdown> by_kind;
  int hosts = 0;
  bool agree =
      false;  // whether none is further from the middle than a round of its own, or than repeated measurements
  // The newest of the measurements. Its corrections are those of the make-up: a new measurement forgets them.
  std::string newest_host;
  double newest_at_seconds = 0;
};

class MeasuredHosts {
 public:
  // Of `shape`, the newest measurement of each host. Keeps pointers into `measured`.
  MeasuredHosts(absl::Span<const HostSlowdown> measured, const std::string& shape);

  // Whether all `devices` of a host were measured together, or with others of it.
  bool Covers(const std::string& host, const std::vector<DeviceOnHost>& devices) const;
  // Of the host as it was measured, if that covers its `devices`; otherwise of these.
  MakeUp MakeUpOf(const std::string& host, const std::vector<DeviceOnHost>& devices) const;
  // None: no host of that make-up was measured.
  std::optional<MakeUpSlowdown> Find(const MakeUp& make_up) const;

 private:
  std::map<std::string, const HostSlowdown*> by_host_;
  std::map<MakeUp, std::vector<const HostSlowdown*>> by_make_up_;  // in the order of their hosts
};

// By name, of those of `devices` that may slow each other down and on hosts of whose make-up something was measured. `by_kind`
// has the device's kind.
std::map<std::string, std::shared_ptr<const MakeUpSlowdown>> SlowdownsByDevice(
    const std::vector<DeviceOnHost>& devices, absl::Span<const HostSlowdown> measured,
    const std::string& shape);

}  // namespace medley
