#include "coordinator/orchestrator/renewals.h"

#include <utility>

#include "coordinator/cluster/lease_table.h"

namespace medley {

void Renewals::Held(const std::string& node, uint64_t incarnation) {
  MutexLock lock(mutex_);
  holders_[node] = incarnation;
}

void Renewals::Ended(const std::string& node) {
  MutexLock lock(mutex_);
  holders_.erase(node);
  noted_.erase(node);
}

std::optional<absl::Duration> Renewals::Note(const std::string& node, uint64_t incarnation, absl::Time now) {
  MutexLock lock(mutex_);
  const auto holder = holders_.find(node);
  if (holder == holders_.end() || holder->second != incarnation) return std::nullopt;
  const absl::Duration lease = LeaseOf(shortest_, holders_.size());
  noted_[node] = {node, incarnation, now, lease};
  return lease;
}

std::vector<Renewals::Renewal> Renewals::Take() {
  std::map<std::string, Renewal> noted;
  {
    MutexLock lock(mutex_);
    noted.swap(noted_);
  }
  std::vector<Renewal> renewals;
  for (auto& [node, renewal] : noted) renewals.push_back(std::move(renewal));
  return renewals;
}

}  // namespace medley
