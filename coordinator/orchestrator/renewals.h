#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "runtime/base/mutex.h"

namespace medley {

// Renewals of leases as they come in, under a lock of their own, which nobody holds while a disk is waited
// for: they are taken into account, as of the moment when they came, by whoever looks next. Thread-safe.
class Renewals {
 public:
  struct Renewal {
    std::string node;
    uint64_t incarnation = 0;
    absl::Time at;
    absl::Duration lease;  // that the node was told
  };
  // `shortest`: as of LeaseOf.
  explicit Renewals(absl::Duration shortest) : shortest_(shortest) {}

  // `node` holds a lease.
  void Held(const std::string& node, uint64_t incarnation);
  // `node` holds none any more.
  void Ended(const std::string& node);
  // Notes a renewal, and says for how long. Nothing: `node` holds no lease, or another incarnation does.
  std::optional<absl::Duration> Note(const std::string& node, uint64_t incarnation, absl::Time now);
  // What was noted since, the newest of each node.
  std::vector<Renewal> Take();

 private:
  const absl::Duration shortest_;
  Mutex mutex_;
  std::map<std::string, uint64_t> holders_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Renewal> noted_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace medley
