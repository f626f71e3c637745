#include "coordinator/jobs/job_queue.h"

#include <algorithm>
#include <iterator>
#include <set>

namespace medley {
namespace {

// Those of `available` that `job`, which names `wanted`, may have.
std::set<std::string> Usable(const WaitingJob& job, const std::set<std::string>& wanted,
                             const std::set<std::string>& available) {
  std::set<std::string> usable;
  if (wanted.empty()) {
    usable = available;
    for (const std::string& device : job.never) usable.erase(device);
  }
  for (const std::string& device : wanted) {
    if (available.contains(device)) usable.insert(device);
  }
  return usable;
}

bool IsWithin(const std::set<std::string>& some, const std::set<std::string>& all) {
  return std::includes(all.begin(), all.end(), some.begin(), some.end());
}

// Adds of `from` what `job` would have first, until there are as many as it takes.
void Fill(const WaitingJob& job, const std::set<std::string>& from, std::set<std::string>& taken) {
  for (const std::string& device : job.preferred) {
    if (taken.size() == job.most) return;
    if (from.contains(device)) taken.insert(device);
  }
  for (const std::string& device : from) {
    if (taken.size() == job.most) return;
    taken.insert(device);
  }
}

// Those of `usable` that `job` takes: the best, or where these were tried in vain those first that were not.
std::set<std::string> Taken(const WaitingJob& job, const std::set<std::string>& usable,
                            const std::set<std::string>& tried) {
  if (job.most == 0 || usable.size() <= job.most) return usable;
  std::set<std::string> taken;
  Fill(job, usable, taken);
  if (!IsWithin(taken, tried)) return taken;
  std::set<std::string> untried;
  std::set_difference(usable.begin(), usable.end(), tried.begin(), tried.end(),
                      std::inserter(untried, untried.end()));
  taken.clear();
  Fill(job, untried, taken);
  Fill(job, usable, taken);
  return taken;
}

std::vector<const WaitingJob*> InOrder(absl::Span<const WaitingJob> jobs) {
  std::vector<const WaitingJob*> order;
  for (const WaitingJob& job : jobs) order.push_back(&job);
  std::stable_sort(order.begin(), order.end(), [](auto* a, auto* b) { return a->priority > b->priority; });
  return order;
}

}  // namespace

std::optional<Grant> NextToStart(absl::Span<const WaitingJob> jobs, absl::Span<const std::string> free) {
  std::set<std::string> available(free.begin(), free.end());  // free and not reserved by an earlier job
  for (const WaitingJob* waiting : InOrder(jobs)) {
    const WaitingJob& job = *waiting;
    const std::set<std::string> tried(job.tried_in_vain.begin(), job.tried_in_vain.end());
    const std::set<std::string> wanted(job.devices.begin(), job.devices.end());
    const std::set<std::string> usable = Usable(job, wanted, available);
    const std::set<std::string> taken = Taken(job, usable, tried);
    const size_t least = job.least > 0 ? job.least : std::max<size_t>(wanted.size(), 1);
    if (taken.size() >= least && !IsWithin(taken, tried)) return Grant{job.id, {taken.begin(), taken.end()}};
    for (const std::string& device : usable) available.erase(device);
  }
  return std::nullopt;
}

}  // namespace medley
