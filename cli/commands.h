#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "cli/connection.h"

// What `medley COMMAND` does about nodes, traces and exports, once its arguments are read. Each prints its
// answer on standard output.
// Errors: InvalidArgument, what the user gave is wrong; otherwise what went wrong, in one line.
namespace medley {

// Shows one node, or all if `node` is empty. NotFound: there is no such node; names those that there are.
absl::Status RunNodes(const Connection& connection, const std::string& node);
// Which kernels run the ops of `node`'s devices, or of all live nodes' if it is empty.
absl::Status RunKernels(const Connection& connection, const std::string& node);
// No job starts on the node any more, or may again. `now`: jobs that cannot save a checkpoint leave it, too.
absl::Status RunDrain(const Connection& connection, const std::string& node, bool now);
absl::Status RunUndrain(const Connection& connection, const std::string& node);
// Writes the coordinator's store to a file, which is whole or not there. InvalidArgument: it is there already.
absl::Status RunBackup(const Connection& connection, const std::string& file);
// Forgets a node that is lost.
absl::Status RunForget(const Connection& connection, const std::string& node);

// Who changed what: the newest `limit` records (0: 1000) at or after `since_seconds` (Unix; 0: all).
absl::Status RunAudit(const Connection& connection, uint32_t limit, double since_seconds);

// Writes `file` in the form of chrome_trace.h; "-" is standard output. `step` 0: the newest that was traced.
absl::Status RunTrace(const Connection& connection, const std::string& job_id, uint32_t step,
                      const std::string& file);

// Writes the job's newest checkpoint, which must be readable from here, as a model of Hugging Face.
// FailedPrecondition: it has none yet.
absl::Status RunExport(const Connection& connection, const std::string& job_id, const std::string& directory);

}  // namespace medley
