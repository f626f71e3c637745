#include "cli/commands.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <set>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/chrome_trace.h"
#include "cli/coordinator_client.h"
#include "cli/interrupts.h"
#include "cli/kernel_view.h"
#include "cli/output_file.h"
#include "cli/patient_call.h"
#include "runtime/base/files/write_all.h"
#include "runtime/base/status_macros.h"
#include "runtime/engine/checkpoint/hugging_face.h"
#include "runtime/engine/checkpoint/manifest.h"
#include "runtime/wire/json_message.h"
#include "runtime/wire/node_groups.h"
#include "runtime/wire/yaml_message.h"

namespace medley {
namespace {

constexpr int kUsualAuditRecords = 1000;  // that the coordinator gives unless it is asked for more

// `all` with one node and the profiles of its devices' kinds.
absl::StatusOr<v1::ListNodesResponse> OnlyNode(const v1::ListNodesResponse& all, const std::string& name) {
  v1::ListNodesResponse one;
  std::set<std::string> kinds;
  std::vector<std::string> names;
  for (const v1::Node& node : all.nodes()) {
    names.push_back(node.name());
    if (node.name() != name) continue;
    *one.add_nodes() = node;
    for (const v1::Device& device : node.devices()) kinds.insert(device.kind());
  }
  if (one.nodes().empty()) {
    return absl::NotFoundError(absl::StrCat("no node ", name, "; there are: ", absl::StrJoin(names, ", ")));
  }
  for (const v1::DeviceProfile& profile : all.profiles()) {
    if (kinds.count(profile.device_kind()) > 0) *one.add_profiles() = profile;
  }
  return one;
}

absl::Status IsThereAlready(const std::string& file) {
  return absl::InvalidArgumentError(
      absl::StrCat(file, " is there already; a backup is not written over another file"));
}

// Gives `from` the name `to`, which nothing has. Not every file system can refuse to replace, nor has hard links: the name is taken by an
// empty file first.
absl::Status MoveToNewFile(const std::string& from, const std::string& to) {
  const int taken = open(to.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (taken < 0 && errno == EEXIST) return IsThereAlready(to);
  std::error_code error(taken < 0 ? errno : 0, std::generic_category());
  if (taken >= 0) {
    close(taken);
    std::filesystem::rename(from, to, error);
    std::error_code ignored;
    if (error) std::filesystem::remove(to, ignored);
  }
  return error ? absl::UnavailableError(absl::StrCat("cannot write ", to, ": ", error.message()))
               : absl::OkStatus();
}

}  // namespace

absl::Status RunNodes(const Connection& connection, const std::string& node) {
  CoordinatorClient client = Connect(connection);
  if (connection.output == Output::kCluster) {
    if (!node.empty())
      return absl::InvalidArgumentError("--output: cluster is of all nodes; leave the node out");
    ASSIGN_OR_RETURN(v1::ClusterSpec cluster, client.ExportCluster());
    GroupAlikeNodes(cluster);
    Print(WriteYaml(cluster));
    return absl::OkStatus();
  }
  absl::StatusOr<v1::ListNodesResponse> nodes = client.ListNodes();
  if (nodes.ok() && !node.empty()) nodes = OnlyNode(*nodes, node);
  return Show(connection, nodes,
              [&](const v1::ListNodesResponse& reply) { return FormatNodes(reply, connection.columns); });
}

absl::Status RunKernels(const Connection& connection, const std::string& node) {
  if (connection.output == Output::kCluster) {
    return absl::InvalidArgumentError("--output: cluster does not go with --kernels");
  }
  BlockInterrupts();
  CoordinatorClient client = Connect(connection);
  const absl::StatusOr<v1::ListKernelsResponse> kernels =
      CallPatiently("asking devices for their kernels", "interrupted",
                    [&](CallHandle& handle) { return client.ListKernels(node, handle); });
  return Show(connection, kernels,
              [&](const v1::ListKernelsResponse& reply) { return FormatKernels(reply, connection.columns); });
}

absl::Status RunDrain(const Connection& connection, const std::string& node, bool now) {
  v1::DrainNodeRequest request;
  request.set_node(node);
  request.set_now(now);
  return Show(connection, Connect(connection).DrainNode(request), [&](const v1::DrainNodeResponse& reply) {
    std::string text =
        absl::StrCat("node ", node, " is drained: no job starts on it until `medley undrain ", node, "`\n");
    const std::set<std::string> at_once(reply.leaving_at_once().begin(), reply.leaving_at_once().end());
    std::vector<std::string> saving;
    for (const std::string& job : reply.leaving()) {
      if (!at_once.contains(job)) saving.push_back(job);
    }
    if (!saving.empty())
      absl::StrAppend(&text, "leaving it after their step and a checkpoint: ", absl::StrJoin(saving, ", "),
                      "\n");
    if (!at_once.empty())
      absl::StrAppend(&text, "leaving it at once, without a checkpoint of what they did since their last: ",
                      absl::StrJoin(reply.leaving_at_once(), ", "), "\n");
    if (reply.staying_size() > 0)
      absl::StrAppend(&text,
                      "staying until they end, since they have no checkpoint.directory (--now has them begin "
                      "anew elsewhere): ",
                      absl::StrJoin(reply.staying(), ", "), "\n");
    return text;
  });
}

absl::Status RunUndrain(const Connection& connection, const std::string& node) {
  RETURN_IF_ERROR(Connect(connection).UndrainNode(node));
  Print(connection.output == Output::kJson ? absl::StrCat("{\"undrained\": ", JsonString(node), "}\n")
                                           : absl::StrCat("jobs may start on node ", node, " again\n"));
  return absl::OkStatus();
}

absl::Status RunBackup(const Connection& connection, const std::string& file) {
  std::error_code error;
  if (std::filesystem::exists(std::filesystem::symlink_status(file, error))) return IsThereAlready(file);
  RETURN_IF_ERROR(CheckOutputFile("FILE", file));
  BlockInterrupts();  // they, too, are to leave nothing of it behind
  // All that was ever submitted is in it, which admins alone may ask for: not into a file that others have open, nor through a link of
  // theirs. Under a name of its own, since another backup may be on its way to the same file.
  std::string partial = file + ".partial-XXXXXX";
  const int descriptor = mkostemp(partial.data(), O_CLOEXEC);  // its owner's alone
  if (descriptor < 0)
    return absl::UnavailableError(absl::StrCat("cannot make ", partial, ": ", std::strerror(errno)));
  int64_t bytes = 0;
  int failure = 0;
  CoordinatorClient client = Connect(connection);
  const auto write = [&](const std::string& part) {
    bytes += static_cast<int64_t>(part.size());
    failure = WriteAll(descriptor, part);
    return failure == 0;
  };
  absl::Status status = CallPatiently("copying the coordinator's store", "interrupted; there is no backup",
                                      [&](CallHandle& handle) { return client.BackUp(handle, write); });
  if (close(descriptor) != 0 && failure == 0) failure = errno;
  if (failure != 0)
    status = absl::UnavailableError(absl::StrCat("cannot write ", partial, ": ", std::strerror(failure)));
  if (status.ok()) status = MoveToNewFile(partial, file);
  if (!status.ok()) {
    std::filesystem::remove(partial, error);
    return status;
  }
  Print(connection.output == Output::kJson
            ? absl::StrCat("{\"file\": ", JsonString(file), ", \"bytes\": ", bytes, "}\n")
            : absl::StrCat(file, ": ", bytes, " bytes; `medley-coordinator --restore ", file,
                           "` makes a store of it\n"));
  return absl::OkStatus();
}

absl::Status RunForget(const Connection& connection, const std::string& node) {
  RETURN_IF_ERROR(Connect(connection).ForgetNode(node));
  Print(connection.output == Output::kJson ? absl::StrCat("{\"forgotten\": ", JsonString(node), "}\n")
                                           : absl::StrCat("node ", node, " is forgotten\n"));
  return absl::OkStatus();
}

absl::Status RunAudit(const Connection& connection, uint32_t limit, double since_seconds) {
  v1::ListAuditRequest request;
  request.set_limit(limit);
  request.set_since_seconds(since_seconds);
  const absl::StatusOr<v1::ListAuditResponse> audit = Connect(connection).ListAudit(request);
  if (audit.ok() && limit == 0 && audit->records_size() == kUsualAuditRecords)
    Note(connection, absl::StrCat("these are the newest ", kUsualAuditRecords, " records; -n N shows more"));
  return Show(connection, audit,
              [&](const v1::ListAuditResponse& reply) { return FormatAudit(reply, connection.columns); });
}

absl::Status RunTrace(const Connection& connection, const std::string& job_id, uint32_t step,
                      const std::string& file) {
  RETURN_IF_ERROR(CheckOutputFile("--to", file));
  ASSIGN_OR_RETURN(const v1::Trace trace, Connect(connection).GetTrace(job_id, step));
  const std::string text = ChromeTrace(trace);
  if (file == "-") {
    Print(text);
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(WriteOutputFile(file, text));
  Print(connection.output == Output::kJson
            ? absl::StrCat("{\"job_id\": ", JsonString(trace.job_id()), ", \"step\": ", trace.step(),
                           ", \"file\": ", JsonString(file), "}\n")
            : absl::StrCat("step ", trace.step(), " of ", trace.job_id(), " in ", file,
                           "; open it in https://ui.perfetto.dev\n"));
  return absl::OkStatus();
}

absl::Status RunExport(const Connection& connection, const std::string& job_id,
                       const std::string& directory) {
  ASSIGN_OR_RETURN(const v1::Job job, Connect(connection).GetJob(job_id));
  if (job.checkpoint_path().empty()) {
    return absl::FailedPreconditionError(absl::StrCat("job ", job_id, " has no complete checkpoint yet"));
  }
  ASSIGN_OR_RETURN(const CheckpointManifest manifest, ReadManifest(job.checkpoint_path()));
  RETURN_IF_ERROR(ExportHuggingFace(manifest, directory));
  Print(connection.output == Output::kJson
            ? absl::StrCat("{\"job_id\": ", JsonString(job.id()), ", \"step\": ", job.checkpoint_step(),
                           ", \"directory\": ", JsonString(directory), "}\n")
            : absl::StrCat("step ", job.checkpoint_step(), " of ", job.id(), " in ", directory, "\n"));
  return absl::OkStatus();
}

}  // namespace medley
