#include "coordinator/orchestrator/job_time.h"

#include <algorithm>
#include <atomic>

#include "runtime/base/unix_time.h"

namespace medley {

double UnixSecondsNeverBack() {
  static std::atomic<double> newest = 0;
  const double now = UnixSecondsNow();
  double before = newest;
  while (before < now && !newest.compare_exchange_weak(before, now)) continue;
  return std::max(before, now);
}

void EndState(v1::Job& job) {
  const double now = UnixSecondsNeverBack(),
               since = job.state_since_seconds() > 0 ? job.state_since_seconds() : job.submitted_at_seconds();
  job.set_state_since_seconds(now);
  if (since <= 0) return;
  for (v1::StateTime& past : *job.mutable_past()) {
    if (past.state() != job.state()) continue;
    past.set_seconds(past.seconds() + std::max(0.0, now - since));
    return;
  }
  v1::StateTime& past = *job.add_past();
  past.set_state(job.state());
  past.set_seconds(std::max(0.0, now - since));
}

void BeginState(v1::Job& job) {
  if (job.state() == v1::JOB_STATE_RUNNING) {
    job.set_accounted_until_seconds(job.state_since_seconds());
  } else {
    job.clear_accounted_until_seconds();
  }
}

double TakeTime(v1::Job& job, double seconds, double at_seconds) {
  if (job.state() != v1::JOB_STATE_RUNNING) return 0;
  const double now = UnixSecondsNeverBack();
  const double from = std::max(job.accounted_until_seconds(), job.state_since_seconds());
  const double until = std::max(from, at_seconds > 0 ? std::min(at_seconds, now) : now);
  job.set_accounted_until_seconds(until);
  return std::clamp(seconds, 0.0, until - from);
}

}  // namespace medley
