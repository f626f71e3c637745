#include "coordinator/orchestrator/renewals.h"

#include <utility>

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

bool Renewals::Note(const std::string& node, uint64_t incarnation, absl::Time now) {
  MutexLock lock(mutex_);
  const auto holder = holders_.find(node);
  if (holder == holders_.end() || holder->second != incarnation) return false;
  noted_[node] = {node, incarnation, now};
  return true;
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
