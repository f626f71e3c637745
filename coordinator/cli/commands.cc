#include "coordinator/cli/commands.h"

#include <cstdio>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "coordinator/cli/chrome_trace.h"
#include "coordinator/cli/coordinator_client.h"
#include "coordinator/cli/input_file.h"
#include "coordinator/cli/kernel_view.h"
#include "coordinator/cli/offline_plan.h"
#include "coordinator/cli/watch.h"
#include "runtime/base/status_macros.h"
#include "runtime/checkpoint/hugging_face.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/codec/yaml_message.h"

namespace medley {
namespace {

CoordinatorClient Connect(const Connection& connection) { return {connection.address, connection.timeout}; }

void Print(const std::string& text) { std::fputs(text.c_str(), stdout); }

// A reply in the form that was asked for.
template <typename Message, typename Format>
absl::Status Show(const Connection& connection, const absl::StatusOr<Message>& reply, Format format) {
  RETURN_IF_ERROR(reply.status());
  Print(connection.output == Output::kJson ? JsonLine(*reply) : format(*reply));
  return absl::OkStatus();
}

absl::StatusOr<v1::JobSpec> ReadJob(const std::string& file) {
  v1::JobSpec spec;
  RETURN_IF_ERROR(ReadInputFile(file, &spec));
  return spec;
}

absl::Status WatchToEnd(CoordinatorClient& client, const Connection& connection, const std::string& job_id) {
  ASSIGN_OR_RETURN(const v1::Job job, WatchJob(client, job_id, connection.output));
  if (job.state() == v1::JOB_STATE_DONE) return absl::OkStatus();
  const char* what = job.state() == v1::JOB_STATE_CANCELLED ? " was cancelled" : " failed";
  return absl::AbortedError(
      absl::StrCat("job ", job.id(), what, job.state_reason().empty() ? "" : ": ", job.state_reason()));
}

}  // namespace

absl::Status RunSubmit(const Connection& connection, const SubmitCommand& command) {
  v1::SubmitJobRequest request;
  ASSIGN_OR_RETURN(*request.mutable_spec(), ReadJob(command.job_file));
  request.set_request_id(command.request_id);
  CoordinatorClient client = Connect(connection);
  const absl::StatusOr<v1::Job> job = client.Submit(request);
  RETURN_IF_ERROR(Show(connection, job, [](const v1::Job& j) { return absl::StrCat(j.id(), "\n"); }));
  if (command.then == AfterSubmit::kReturn) return absl::OkStatus();
  std::fflush(stdout);
  return WatchToEnd(client, connection, job->id());
}

absl::Status RunPlan(const Connection& connection, const PlanCommand& command) {
  ASSIGN_OR_RETURN(const v1::JobSpec spec, ReadJob(command.job_file));
  const auto format = [&](const v1::PlanReport& report) { return FormatPlan(report, command.detail); };
  if (command.cluster_file.empty()) return Show(connection, Connect(connection).PlanJob(spec), format);
  v1::ClusterSpec cluster;
  RETURN_IF_ERROR(ReadInputFile(command.cluster_file, &cluster));
  return Show(connection, PlanOffline(spec, cluster), format);
}

absl::Status RunStatus(const Connection& connection, const std::string& job_id) {
  CoordinatorClient client = Connect(connection);
  if (job_id.empty()) return Show(connection, client.ListJobs(), FormatJobs);
  return Show(connection, client.GetJob(job_id), FormatJob);
}

absl::Status RunWatch(const Connection& connection, const std::string& job_id) {
  CoordinatorClient client = Connect(connection);
  return WatchToEnd(client, connection, job_id);
}

absl::Status RunNodes(const Connection& connection) {
  CoordinatorClient client = Connect(connection);
  if (connection.output != Output::kCluster) return Show(connection, client.ListNodes(), FormatNodes);
  ASSIGN_OR_RETURN(const v1::ClusterSpec cluster, client.ExportCluster());
  Print(WriteYaml(cluster));
  return absl::OkStatus();
}

absl::Status RunKernels(const Connection& connection, const std::string& node) {
  if (connection.output == Output::kCluster) {
    return absl::InvalidArgumentError("--output: cluster does not go with --kernels");
  }
  return Show(connection, Connect(connection).ListKernels(node), FormatKernels);
}

absl::Status RunCancel(const Connection& connection, const std::string& job_id) {
  return Show(connection, Connect(connection).Cancel(job_id), FormatJob);
}

absl::Status RunLogs(const Connection& connection, const std::string& job_id) {
  return Show(connection, Connect(connection).ListLogs(job_id), FormatLogs);
}

absl::Status RunSteps(const Connection& connection, const std::string& job_id) {
  return Show(connection, Connect(connection).ListSteps(job_id), FormatSteps);
}

absl::Status RunTrace(const Connection& connection, const std::string& job_id, const std::string& file) {
  ASSIGN_OR_RETURN(const v1::Trace trace, Connect(connection).GetTrace(job_id));
  const std::string text = ChromeTrace(trace);
  if (file == "-") {
    Print(text);
    return absl::OkStatus();
  }
  std::ofstream out(file, std::ios::trunc);
  out << text;
  out.close();
  if (!out) return absl::UnavailableError(absl::StrCat("cannot write ", file));
  Print(absl::StrCat("step ", trace.step(), " of ", trace.job_id(), " in ", file,
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
  Print(absl::StrCat("step ", job.checkpoint_step(), " of ", job.id(), " in ", directory, "\n"));
  return absl::OkStatus();
}

}  // namespace medley
