#include "coordinator/jobs/job_queue.h"

#include <algorithm>
#include <set>

namespace medley {

std::optional<Grant> NextToStart(absl::Span<const WaitingJob> jobs, absl::Span<const std::string> free) {
  std::set<std::string> available(free.begin(), free.end());  // free and not reserved by an earlier job
  for (const WaitingJob& job : jobs) {
    const std::set<std::string> tried(job.tried_in_vain.begin(), job.tried_in_vain.end());
    if (job.devices.empty()) {
      std::set<std::string> usable = available;
      for (const std::string& device : job.never) usable.erase(device);
      if (!std::includes(tried.begin(), tried.end(), usable.begin(), usable.end())) {
        return Grant{job.id, {usable.begin(), usable.end()}};
      }
      for (const std::string& device : usable) available.erase(device);
      continue;
    }
    const std::set<std::string> wanted(job.devices.begin(), job.devices.end());
    if (std::includes(available.begin(), available.end(), wanted.begin(), wanted.end()) &&
        !std::includes(tried.begin(), tried.end(), wanted.begin(), wanted.end())) {
      return Grant{job.id, {wanted.begin(), wanted.end()}};
    }
    for (const std::string& device : wanted) available.erase(device);
  }
  return std::nullopt;
}

}  // namespace medley
