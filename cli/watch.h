#pragma once
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cli/coordinator_client.h"
#include "cli/interrupts.h"
#include "cli/output.h"
#include "proto/medley/v1/job.pb.h"

namespace medley {

// A coordinator that went away is waited for so long: training goes on without it.
constexpr absl::Duration kWatchPatience = absl::Hours(1);

// What is told while a job is followed, from the calling thread.
struct FollowCallbacks {
  // A change of the job and the steps that are new, none twice; steps of a newer attempt begin after its
  // checkpoint. Of what was sent when the watching was taken up again, only what is news.
  std::function<void(const v1::JobUpdate&)> on_update;
  // The coordinator has been away for so long; called again and again while it is. May be empty.
  std::function<void(const std::string& why, absl::Duration away)> on_away;
  // It is back after so long. May be empty.
  std::function<void(absl::Duration away)> on_back;
};

// Follows a job, those of its steps after `after_step`, until it has ended; the job as it was last seen. A
// coordinator that goes away is asked again twice a second.
// Errors: Cancelled, interrupted; those of the client if the first call fails, or at the end of `patience`.
absl::StatusOr<v1::Job> FollowJob(CoordinatorClient& client, const std::string& job_id, uint32_t after_step,
                                  const FollowCallbacks& callbacks, absl::Duration patience = kWatchPatience);

// Says on standard error that the coordinator is away, once, and that it is back.
class AwayNotice {
 public:
  void SayAway(const std::string& why);
  void SayBack(absl::Duration away);

 private:
  bool away_ = false;
};

// Shows a job's progress on standard output until it has ended; the job as it was last seen. On a terminal a
// display that is redrawn, otherwise lines; JSON: every update on a line, the job's spec in the first alone.
// That the coordinator is away and back is shown in the display, or said on standard error.
//
// Interrupts must be blocked in all threads (BlockInterrupts). They end the watching, not the job.
// Errors: as FollowJob; the message of Cancelled says that the job goes on.
absl::StatusOr<v1::Job> WatchJob(CoordinatorClient& client, const std::string& job_id, Output output);

}  // namespace medley
