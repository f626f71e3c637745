#pragma once
#include <string>
#include <vector>

#include "runtime/ir/cluster/device_profile.h"

// How much the devices of one host slow each other down when they all compute at the same time.
namespace medley {

struct SharedSlowdown {
  std::string device;  // "node/device"
  std::string device_kind;
  double factor = 1;         // time of its passes while all others of the host compute over their time alone
  double update_factor = 0;  // likewise of norms and updates, which memory bounds; 0: not known, as `factor`
  double spread = 0;         // of `factor`, as ProfiledTimes::spread
  // What jobs that ran on several devices of a host with devices of the same kinds showed since: kPasses of `factor`, kUpdates of
  // `update_factor`.
  ProfileCorrections corrections;
  friend bool operator==(const SharedSlowdown&, const SharedSlowdown&) = default;
};

// What updates are slowed down by as far as was measured.
inline double UpdateFactorOf(const SharedSlowdown& shared) {
  return shared.update_factor > 0 ? shared.update_factor : shared.factor;
}

struct HostSlowdown {
  std::string host;   // of all of them
  std::string shape;  // as DeviceProfile::shape
  std::vector<SharedSlowdown> devices;
  double measured_at_seconds = 0;  // unix
  std::string provenance;          // for people
  friend bool operator==(const HostSlowdown&, const HostSlowdown&) = default;
};

}  // namespace medley
