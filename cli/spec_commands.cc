#include "cli/spec_commands.h"

#include <iostream>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "cli/coordinator_client.h"
#include "cli/input_file.h"
#include "cli/interrupts.h"
#include "cli/job_commands.h"
#include "cli/offline_plan.h"
#include "cli/patient_call.h"
#include "runtime/base/status_macros.h"
#include "runtime/wire/yaml_message.h"

namespace medley {
namespace {

absl::StatusOr<v1::JobSpec> ReadSpec(const SpecSource& source, YamlPlaces& places) {
  std::vector<YamlOverride> overrides;
  for (const std::string& set : source.sets) {
    ASSIGN_OR_RETURN(YamlOverride given, ParseYamlOverride("--set", set));
    overrides.push_back(std::move(given));
  }
  const bool piped = source.file == "-";
  absl::StatusOr<std::string> text =
      piped ? std::string(std::istreambuf_iterator<char>(std::cin), {}) : ReadDocumentFile(source.file);
  if (!text.ok()) return absl::InvalidArgumentError(text.status().message());
  v1::JobSpec spec;
  RETURN_IF_ERROR(ReadYaml(*text, piped ? "standard input" : source.file, &spec, overrides, &places));
  return spec;
}

}  // namespace

absl::Status RunSubmit(const Connection& connection, const SubmitCommand& command) {
  YamlPlaces places;
  v1::SubmitJobRequest request;
  ASSIGN_OR_RETURN(*request.mutable_spec(), ReadSpec(command.spec, places));
  request.set_request_id(command.request_id);
  if (command.then == AfterSubmit::kWatch) BlockInterrupts();
  const absl::StatusOr<v1::Job> job =
      CoordinatorClient(connection.address, connection.timeout).Submit(request);
  RETURN_IF_ERROR(places.Locate(job.status()));
  RETURN_IF_ERROR(Show(connection, job, [](const v1::Job& j) { return absl::StrCat(j.id(), "\n"); }));
  if (command.then == AfterSubmit::kReturn) return absl::OkStatus();
  std::fflush(stdout);
  return RunWatch(connection, job->id());
}

absl::Status RunPlan(const Connection& connection, const PlanCommand& command) {
  YamlPlaces places;
  v1::PlanJobRequest request;
  ASSIGN_OR_RETURN(*request.mutable_spec(), ReadSpec(command.spec, places));
  request.set_time_limit_seconds(command.time_limit_seconds);
  absl::StatusOr<v1::PlanReport> report;
  if (command.cluster_file.empty()) {
    BlockInterrupts();
    CoordinatorClient client(connection.address, connection.timeout);
    report = CallPatiently("measuring what no profile tells yet, then planning",
                           "interrupted; nothing was started",
                           [&](CallHandle& handle) { return client.PlanJob(request, handle); });
  } else {
    v1::ClusterSpec cluster;
    RETURN_IF_ERROR(ReadInputFile(command.cluster_file, &cluster));
    report = PlanOffline(request, cluster);
  }
  RETURN_IF_ERROR(places.Locate(report.status()));
  return Show(connection, report, [&](const v1::PlanReport& reply) {
    return FormatPlan(reply, command.detail, connection.columns);
  });
}

absl::Status RunExplain(const Connection& connection, const std::string& job_id) {
  BlockInterrupts();
  CoordinatorClient client(connection.address, connection.timeout);
  const absl::StatusOr<v1::PlanReport> report =
      CallPatiently("looking for the best plans of other kinds", "interrupted; the job goes on",
                    [&](CallHandle& handle) { return client.GetPlan(job_id, handle); });
  return Show(connection, report, [&](const v1::PlanReport& reply) {
    return FormatPlan(reply, PlanDetail::kExplanation, connection.columns);
  });
}

}  // namespace medley
