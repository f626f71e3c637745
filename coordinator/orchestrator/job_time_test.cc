#include "coordinator/orchestrator/job_time.h"

#include <catch2/catch.hpp>

#include "runtime/base/unix_time.h"

namespace medley {
namespace {

v1::Job RunningSince(double since_seconds) {
  v1::Job job;
  job.set_state(v1::JOB_STATE_RUNNING);
  job.set_state_since_seconds(since_seconds);
  BeginState(job);
  return job;
}

TEST_CASE("what a running job was at takes the time that it took, and what lies before it was between") {
  v1::Job job = RunningSince(1000);
  CHECK(TakeTime(job, 3, 1005) == 3);
  CHECK(job.accounted_until_seconds() == 1005);
  CHECK(TakeTime(job, 2, 1007) == 2);
}

TEST_CASE("time is given once, whatever is heard again, early or of another clock") {
  v1::Job job = RunningSince(1000);
  CHECK(TakeTime(job, 30, 1005) == 5);  // it cannot have begun before the job ran
  CHECK(TakeTime(job, 5, 1005) == 0);
  CHECK(TakeTime(job, 5, 900) == 0);
  CHECK(job.accounted_until_seconds() == 1005);
  CHECK(TakeTime(job, -1, 1006) == 0);
  const double now = UnixSecondsNeverBack();
  CHECK(TakeTime(job, 1, now + 1e6) == 1);
  CHECK(job.accounted_until_seconds() <= UnixSecondsNeverBack());
}

TEST_CASE("a job that does not run has no time for it") {
  v1::Job job;
  job.set_state(v1::JOB_STATE_RECOVERING);
  BeginState(job);
  CHECK(TakeTime(job, 1, 0) == 0);
  CHECK(job.accounted_until_seconds() == 0);
}

TEST_CASE("a moment that is not known is now") {
  const double before = UnixSecondsNeverBack();
  v1::Job job = RunningSince(before - 100);
  CHECK(TakeTime(job, 7, 0) == 7);
  CHECK(job.accounted_until_seconds() >= before);
}

}  // namespace
}  // namespace medley
