#pragma once
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "coordinator/cli/output.h"
#include "coordinator/cli/views.h"

// What `medley COMMAND` does, once its arguments are read. Each prints its answer on standard output.
// Errors: InvalidArgument, what the user gave is wrong; otherwise what went wrong, in one line.
namespace medley {

struct Connection {
  std::string address;  // "host:port" of the coordinator
  absl::Duration timeout = absl::Seconds(10);
  Output output = Output::kText;
};

enum class AfterSubmit { kReturn, kWatch };
struct SubmitCommand {
  std::string job_file;
  std::string request_id;  // empty: none
  AfterSubmit then = AfterSubmit::kReturn;
};
// Aborted: the watched job failed or was cancelled.
absl::Status RunSubmit(const Connection& connection, const SubmitCommand& command);

struct PlanCommand {
  std::string job_file;
  std::string cluster_file;  // empty: ask the coordinator
  PlanDetail detail = PlanDetail::kSummary;
};
absl::Status RunPlan(const Connection& connection, const PlanCommand& command);

// All jobs if `job_id` is empty.
absl::Status RunStatus(const Connection& connection, const std::string& job_id);
// Aborted: the job failed or was cancelled.
absl::Status RunWatch(const Connection& connection, const std::string& job_id);
absl::Status RunNodes(const Connection& connection);
// Which kernels run the ops of `node`'s devices, or of all live nodes' if it is empty.
absl::Status RunKernels(const Connection& connection, const std::string& node);
absl::Status RunCancel(const Connection& connection, const std::string& job_id);
absl::Status RunLogs(const Connection& connection, const std::string& job_id);
absl::Status RunSteps(const Connection& connection, const std::string& job_id);

// Writes `file` in the form of chrome_trace.h; "-" is standard output.
absl::Status RunTrace(const Connection& connection, const std::string& job_id, const std::string& file);

// Writes the job's newest checkpoint, which must be readable from here, as a model of Hugging Face.
// FailedPrecondition: it has none yet.
absl::Status RunExport(const Connection& connection, const std::string& job_id, const std::string& directory);

}  // namespace medley
