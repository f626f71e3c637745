#include "cli/spec_commands.h"

#include <cstdio>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cli/coordinator_client.h"
#include "cli/input_file.h"
#include "cli/interrupts.h"
#include "cli/job_commands.h"
#include "cli/offline_plan.h"
#include "cli/output_file.h"
#include "cli/patient_call.h"
#include "cli/plan_page.h"
#include "cli/what_if_view.h"
#include "runtime/base/status_macros.h"
#include "runtime/ir/cluster/not_measured.h"
#include "runtime/wire/yaml_message.h"

namespace medley {
namespace {

absl::StatusOr<v1::JobSpec> ReadSpec(const SpecSource& source, YamlPlaces& places) {
  std::vector<YamlOverride> overrides;
  for (const std::string& set : source.sets) {
    ASSIGN_OR_RETURN(YamlOverride given, ParseYamlOverride("--set", set));
    overrides.push_back(std::move(given));
  }
  overrides.insert(overrides.end(), source.overrides.begin(), source.overrides.end());
  const bool piped = source.file == "-";
  absl::StatusOr<std::string> text =
      piped ? std::string(std::istreambuf_iterator<char>(std::cin), {}) : ReadDocumentFile(source.file);
  if (!text.ok()) return absl::InvalidArgumentError(text.status().message());
  v1::JobSpec spec;
  RETURN_IF_ERROR(ReadYaml(*text, piped ? "standard input" : source.file, &spec, overrides, &places));
  return spec;
}

// Prints the plan and, where a file is named, writes its page.
absl::Status ShowPlan(const Connection& connection, const std::string& title, PlanDetail detail,
                      const std::string& page_file, absl::StatusOr<v1::PlanReport> report) {
  RETURN_IF_ERROR(report.status());
  const std::string page = page_file.empty() ? "" : PlanPage(title, *report);
  if (page_file == "-") {
    Print(page);
    return absl::OkStatus();
  }
  report->clear_predicted_step();
  RETURN_IF_ERROR(Show(connection, report, [&](const v1::PlanReport& reply) {
    return FormatPlan(reply, detail, connection.columns);
  }));
  if (page_file.empty()) return absl::OkStatus();
  std::fflush(stdout);
  RETURN_IF_ERROR(WriteOutputFile(page_file, page));
  Note(connection, absl::StrCat(page_file, " shows it; open it in a browser"));
  return absl::OkStatus();
}

// Where packages put the data sheets, and where they are beside the sources.
constexpr const char* kSheetsDirectories[] = {"/usr/share/medley/profiles", "profiles"};

DataSheets SheetsIn(const std::string& given_directory) {
  if (!given_directory.empty()) return {given_directory};
  std::error_code error;
  for (const char* directory : kSheetsDirectories) {
    if (std::filesystem::is_directory(directory, error))
      return {.directory = directory, .of_added_alone = true};
  }
  return {};
}

// A plan with the coordinator measures what a plan of its exported cluster misses.
absl::Status TellWhatMeasures(const absl::Status& status, const std::string& spec_file) {
  if (!IsNotMeasured(status)) return status;
  return absl::Status(status.code(), absl::StrCat(status.message(), "; `medley plan ", spec_file,
                                                  "` measures what is missing"));
}

}  // namespace

absl::Status RunSubmit(const Connection& connection, const SubmitCommand& command) {
  YamlPlaces places;
  v1::SubmitJobRequest request;
  ASSIGN_OR_RETURN(*request.mutable_spec(), ReadSpec(command.spec, places));
  request.set_request_id(command.request_id);
  if (command.then == AfterSubmit::kWatch) BlockInterrupts();
  const absl::StatusOr<v1::Job> job = Connect(connection).Submit(request);
  RETURN_IF_ERROR(places.Locate(job.status()));
  RETURN_IF_ERROR(Show(connection, job, [](const v1::Job& j) { return absl::StrCat(j.id(), "\n"); }));
  if (command.then == AfterSubmit::kReturn) return absl::OkStatus();
  std::fflush(stdout);
  return RunWatch(connection, job->id());
}

absl::Status RunPlan(const Connection& connection, const PlanCommand& command) {
  // Planning may take minutes.
  RETURN_IF_ERROR(CheckOutputFile("--html", command.page_file));
  YamlPlaces places;
  v1::PlanJobRequest request;
  ASSIGN_OR_RETURN(*request.mutable_spec(), ReadSpec(command.spec, places));
  request.set_with_predicted_step(!command.page_file.empty());
  request.set_time_limit_seconds(command.time_limit_seconds);
  request.set_with_pareto(command.with_pareto);
  absl::StatusOr<v1::PlanReport> report;
  if (command.cluster_file.empty() && !command.kinds_directory.empty())
    return absl::InvalidArgumentError(
        "--kinds: goes with --cluster alone; devices that are there are measured");
  if (command.cluster_file.empty()) {
    BlockInterrupts();
    CoordinatorClient client = Connect(connection);
    report = CallPatiently("measuring what no profile tells yet, then planning",
                           "interrupted; nothing was started",
                           [&](CallHandle& handle) { return client.PlanJob(request, handle); });
  } else {
    v1::ClusterSpec cluster;
    RETURN_IF_ERROR(ReadInputFile(command.cluster_file, &cluster));
    // A summary shows no other plans.
    const bool shows_all = command.detail != PlanDetail::kSummary || !command.page_file.empty() ||
                           connection.output == Output::kJson;
    report = PlanOffline(request, cluster, command.kinds_directory,
                         shows_all ? Comparison::kOtherKinds : Comparison::kNone);
  }
  RETURN_IF_ERROR(places.Locate(report.status()));
  return ShowPlan(connection, request.spec().name(), command.detail, command.page_file, std::move(report));
}

absl::Status RunWhatIf(const Connection& connection, WhatIfCommand command) {
  YamlPlaces places;
  v1::PlanJobRequest request;
  ASSIGN_OR_RETURN(*request.mutable_spec(), ReadSpec(command.spec, places));
  request.set_time_limit_seconds(command.time_limit_seconds);
  if (!command.cluster_file.empty()) {
    RETURN_IF_ERROR(ReadInputFile(command.cluster_file, &command.changes.other.emplace()));
    command.changes.other_name = command.cluster_file;
  }
  if (!command.changes.any()) {
    return absl::InvalidArgumentError(
        "what-if: nothing is changed; give --cluster, --remove, --add or --link");
  }
  const bool asks = command.today_file.empty();
  v1::ClusterSpec today;
  if (asks) {
    ASSIGN_OR_RETURN(today, Connect(connection).ExportCluster());
  } else {
    RETURN_IF_ERROR(ReadInputFile(command.today_file, &today));
  }
  const absl::StatusOr<v1::WhatIfReport> report =
      AnswerWhatIf(request, today, command.changes, SheetsIn(command.kinds_directory));
  RETURN_IF_ERROR(
      places.Locate(asks ? TellWhatMeasures(report.status(), command.spec.file) : report.status()));
  return Show(connection, report,
              [&](const v1::WhatIfReport& reply) { return FormatWhatIf(reply, connection.columns); });
}

absl::Status RunExplain(const Connection& connection, const std::string& job_id,
                        const std::string& page_file) {
  RETURN_IF_ERROR(CheckOutputFile("--html", page_file));
  v1::GetPlanRequest request;
  request.set_job_id(job_id);
  request.set_with_predicted_step(!page_file.empty());
  BlockInterrupts();
  CoordinatorClient client = Connect(connection);
  absl::StatusOr<v1::PlanReport> report =
      CallPatiently("looking for the best plans of other kinds", "interrupted; the job goes on",
                    [&](CallHandle& handle) { return client.GetPlan(request, handle); });
  return ShowPlan(connection, job_id, PlanDetail::kExplanation, page_file, std::move(report));
}

}  // namespace medley
