#pragma once
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "cli/connection.h"

// What `medley COMMAND` does about jobs that were submitted. Each prints its answer on standard output.
// Errors: InvalidArgument, what the user gave is wrong; Cancelled, Ctrl-C (with an empty message where it is
// the usual end); otherwise what went wrong, in one line.
namespace medley {

struct StatusCommand {
  std::string job_id;  // empty: all jobs
  uint32_t limit = 0;  // the newest so many; 0: as many as the coordinator gives unasked
  bool watch = false;  // again every second, until the job has ended or Ctrl-C
};
absl::Status RunStatus(const Connection& connection, const StatusCommand& command);

// Aborted: the job failed or was cancelled.
absl::Status RunWatch(const Connection& connection, const std::string& job_id);

// Which lines or steps of a job.
struct ListingCommand {
  std::string job_id;
  uint32_t limit = 0;        // the newest so many; 0: of logs 1000, of steps all
  double since_seconds = 0;  // Unix; 0: all
  std::string source;        // of logs: ListLogsRequest.source
  bool follow = false;       // those that come, too, until the job has ended
};
absl::Status RunLogs(const Connection& connection, const ListingCommand& command);
absl::Status RunSteps(const Connection& connection, const ListingCommand& command);

enum class CancelWhen { kNow, kAfterCheckpoint };
// Waits for the end for as long as a call may take; if that is not enough, says that the job is being
// cancelled.
absl::Status RunCancel(const Connection& connection, const std::string& job_id, CancelWhen when);
absl::Status RunResume(const Connection& connection, const std::string& job_id);
enum class ReplanWhen { kIfFaster, kAlways };
absl::Status RunReplan(const Connection& connection, const std::string& job_id, ReplanWhen when);
absl::Status RunHold(const Connection& connection, const std::string& job_id);
absl::Status RunRelease(const Connection& connection, const std::string& job_id);
absl::Status RunDelete(const Connection& connection, const std::string& job_id);

}  // namespace medley
