#include "coordinator/cli/views.h"

#include <map>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "coordinator/cli/number_format.h"
#include "coordinator/cli/progress.h"
#include "coordinator/cli/text_table.h"
#include "google/protobuf/util/json_util.h"
#include "runtime/base/bytes.h"
#include "runtime/codec/enum_names.h"

namespace medley {
namespace {

using Rows = std::vector<std::vector<std::string>>;

std::string StateName(v1::JobState state) {
  const auto* value = v1::JobState_descriptor()->FindValueByNumber(state);
  return value == nullptr ? absl::StrCat("state ", static_cast<int>(state)) : NameOf(*value);
}

std::string FormatSize(uint64_t bytes) { return FormatBytes({static_cast<int64_t>(bytes)}); }

std::string DevicesOf(const v1::PlanReport& report) {
  std::vector<std::string> names;
  for (const v1::Unit& unit : report.plan().units()) {
    for (const std::string& device : unit.devices()) names.push_back(Printable(device));
  }
  return absl::StrJoin(names, ", ");
}

std::string LossOf(const v1::Job& job) {
  if (job.last_step().step() == 0) return "";
  return job.last_step().emulated() ? "emulated" : absl::StrFormat("%.4f", job.last_step().loss());
}

std::string EmulatedDevicesOf(const v1::PlanReport& report) {
  std::vector<std::string> names;
  for (const v1::DeviceShare& share : report.devices()) {
    if (share.used() && share.emulated()) names.push_back(Printable(share.device()));
  }
  return absl::StrJoin(names, ", ");
}

std::string FormatDevices(const v1::PlanReport& report) {
  Rows rows = {{"DEVICE", "BLOCKS", "MICRO-BATCHES", "BUSY", "MEMORY", "LIMIT", "KIND"}};
  for (const v1::DeviceShare& share : report.devices()) {
    rows.push_back({Printable(share.device()), share.used() ? absl::StrCat(share.blocks()) : "-",
                    share.used() ? absl::StrCat(share.micro_batches()) : "-",
                    share.used() ? absl::StrFormat("%.0f %%", share.busy_share() * 100) : "-",
                    share.used() ? FormatSize(share.peak_memory_bytes()) : "-",
                    FormatSize(share.memory_limit_bytes()), Printable(share.kind())});
  }
  return FormatTable(rows);
}

// What the prediction was made from.
std::string FormatProfiles(const v1::PlanReport& report) {
  Rows rows = {{"KIND", "MEASURED", "ON AND WITH"}};
  for (const v1::ProfileUse& profile : report.profiles()) {
    rows.push_back({Printable(profile.device_kind()), FormatTime(profile.measured_at_seconds()),
                    Printable(profile.provenance())});
  }
  return rows.size() == 1 ? "" : absl::StrCat("\n", FormatTable(rows));
}

std::string FormatRejected(const v1::PlanReport& report) {
  Rows rows = {{"INSTEAD", "STEP", "WHY NOT", "PLAN"}};
  for (const v1::RejectedPlan& rejected : report.rejected()) {
    const bool fits = rejected.predicted_step_seconds() > 0;
    rows.push_back({Printable(rejected.kind()),
                    fits ? FormatStepSeconds(rejected.predicted_step_seconds()) : "none fits",
                    Printable(rejected.why_slower()), Printable(rejected.description())});
  }
  return FormatTable(rows);
}

// "optimal", or how far from the bound.
std::string Quality(const v1::PlanReport& report) {
  if (report.pinned()) return "named by the job";
  if (report.proven_optimal()) return "proven optimal";
  const double bound = report.lower_bound_seconds();
  if (!(bound > 0)) return "best found";
  return absl::StrFormat("at most %.1f %% slower than the best possible",
                         (report.predicted_step_seconds() / bound - 1) * 100);
}

}  // namespace

std::string FormatJobs(const v1::ListJobsResponse& jobs) {
  Rows rows = {{"JOB", "STATE", "STEP", "LOSS", "SUBMITTED", "DEVICES", "WHY"}};
  for (const v1::Job& job : jobs.jobs()) {
    rows.push_back({Printable(job.id()), StateName(job.state()),
                    absl::StrCat(job.last_step().step(), "/", job.spec().steps()), LossOf(job),
                    FormatTime(job.submitted_at_seconds()), DevicesOf(job.plan()),
                    CutToWidth(Printable(job.state_reason()), 80)});
  }
  return FormatTable(rows);
}

std::string FormatJob(const v1::Job& job) {
  Rows rows = {{"job", Printable(job.id())}, {"state", StateName(job.state())}};
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty() && value != "-") rows.push_back({name, value});
  };
  add("why", Printable(job.state_reason()));
  if (job.plan().emulated()) {
    add("EMULATED", absl::StrCat(EmulatedDevicesOf(job.plan()), " compute nothing: only the times mean anything"));
  }
  add("submitted", FormatTime(job.submitted_at_seconds()));
  add("started", FormatTime(job.started_at_seconds()));
  add("ended", FormatTime(job.ended_at_seconds()));
  if (job.parameters() > 0) add("parameters", FormatParameters(job.parameters()));
  add("step", absl::StrCat(job.last_step().step(), "/", job.spec().steps()));
  add("loss", LossOf(job));
  if (job.last_validation().step() > 0 && !job.last_step().emulated()) {
    add("validation",
        absl::StrFormat("%.4f at step %d", job.last_validation().loss(), job.last_validation().step()));
  }
  add("measured step", FormatStepSeconds(job.measured_step_seconds()));
  add("predicted step", FormatStepSeconds(job.plan().predicted_step_seconds()));
  add("difference", FormatDifference(job.measured_step_seconds(), job.plan().predicted_step_seconds()));
  if (job.restarts() > 0) add("restarts", absl::StrCat(job.restarts()));
  if (!job.checkpoint_path().empty()) {
    add("checkpoint", absl::StrCat(Printable(job.checkpoint_path()), " (step ", job.checkpoint_step(), ")"));
  }
  add("plan", Printable(job.plan().description()));
  for (std::vector<std::string>& row : rows) row[0].resize(14, ' ');
  std::string text;
  for (const std::vector<std::string>& row : rows) absl::StrAppend(&text, row[0], "  ", row[1], "\n");
  return text;
}

// What the devices were measured with, a line a kind: its newest profile.
std::string FormatProfiled(const v1::ListNodesResponse& nodes) {
  struct Kind {
    int shapes = 0;
    const v1::DeviceProfile* newest = nullptr;
  };
  std::map<std::string, Kind> kinds;
  for (const v1::DeviceProfile& profile : nodes.profiles()) {
    Kind& kind = kinds[profile.device_kind()];
    ++kind.shapes;
    if (kind.newest == nullptr || profile.measured_at_seconds() > kind.newest->measured_at_seconds()) {
      kind.newest = &profile;
    }
  }
  Rows rows = {{"PROFILED", "SHAPES", "LAST", "ON AND WITH"}};
  for (const auto& [name, kind] : kinds) {
    rows.push_back({Printable(name), absl::StrCat(kind.shapes), FormatTime(kind.newest->measured_at_seconds()),
                    Printable(kind.newest->provenance())});
  }
  return kinds.empty() ? "" : absl::StrCat("\n", FormatTable(rows));
}

std::string FormatNodes(const v1::ListNodesResponse& nodes) {
  Rows rows = {{"DEVICE", "BACKEND", "VARIANT", "CORES", "MEMORY", "NODE", "JOB"}};
  for (const v1::Node& node : nodes.nodes()) {
    const std::string alive = node.alive() ? "alive" : absl::StrCat("lost ", Printable(node.status()));
    if (node.devices().empty())
      rows.push_back({absl::StrCat(Printable(node.name()), "/-"), "", "", "", "", alive, ""});
    for (const v1::Device& device : node.devices()) {
      const auto job = node.jobs().find(device.name());
      rows.push_back({Printable(absl::StrCat(node.name(), "/", device.name())), Printable(device.backend()),
                      Printable(device.variant()), absl::StrJoin(device.cores(), " "),
                      FormatSize(device.memory_bytes()), alive,
                      job == node.jobs().end() ? "" : Printable(job->second)});
    }
  }
  return absl::StrCat(FormatTable(rows), FormatProfiled(nodes));
}

std::string FormatSteps(const v1::ListStepsResponse& steps) {
  Rows rows = {
      {"STEP", "LOSS", "GRADIENT NORM", "LEARNING RATE", "SECONDS", "TOKENS/S", "ATTEMPT", "VALIDATION"}};
  int next = 0;
  for (const v1::StepMetrics& step : steps.steps()) {
    while (next < steps.validations_size() && steps.validations(next).step() < step.step()) ++next;
    const bool validated = next < steps.validations_size() && steps.validations(next).step() == step.step();
    rows.push_back(
        {absl::StrCat(step.step()), step.emulated() ? "emulated" : absl::StrFormat("%.6f", step.loss()),
         step.emulated() ? "-" : absl::StrFormat("%.4f", step.gradient_norm()), absl::StrFormat("%.3e", step.learning_rate()),
         absl::StrFormat("%.4f", step.step_seconds()),
         step.step_seconds() > 0 ? absl::StrFormat("%.0f", step.tokens() / step.step_seconds()) : "-",
         absl::StrCat(step.attempt()),
         validated && !step.emulated() ? absl::StrFormat("%.6f", steps.validations(next).loss()) : "-"});
  }
  return FormatTable(rows);
}

std::string FormatLogs(const v1::ListLogsResponse& logs) {
  std::string text;
  for (const v1::LogLine& line : logs.lines()) {
    absl::StrAppend(&text, FormatTime(line.at_seconds()), "  ", Printable(line.source()), "  ",
                    Printable(line.text()), "\n");
  }
  return text;
}

std::string FormatPlan(const v1::PlanReport& report, PlanDetail detail) {
  std::string speed =
      absl::StrCat("predicted step ", FormatStepSeconds(report.predicted_step_seconds()), ", ",
                   FormatRate(report.predicted_tokens_per_second()), " tokens/s; ", Quality(report));
  if (report.simulated_plans() > 0)
    absl::StrAppend(&speed, "; ", report.simulated_plans(), " plans simulated");
  if (report.emulated()) {
    absl::StrAppend(&speed, "\nEMULATED: ", EmulatedDevicesOf(report),
                    " compute nothing: only the times mean anything");
  }
  // The explanation begins with the description and lists the devices itself.
  if (detail == PlanDetail::kExplanation && !report.explanation().empty()) {
    return absl::StrCat(speed, "\n\n", report.explanation(),
                        absl::EndsWith(report.explanation(), "\n") ? "" : "\n", FormatProfiles(report));
  }
  std::string text =
      absl::StrCat(Printable(report.description()), "\n", speed, "\n\n", FormatDevices(report));
  if (detail == PlanDetail::kSummary) return text;
  absl::StrAppend(&text, "\nbottleneck: ", Printable(report.bottleneck()),
                  absl::StrFormat("; idle share of the used devices %.1f %%\n", report.bubble_share() * 100));
  if (!report.rejected().empty()) absl::StrAppend(&text, "\n", FormatRejected(report));
  absl::StrAppend(&text, FormatProfiles(report));
  return text;
}

std::string JsonLine(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  std::string text;
  const auto status = google::protobuf::util::MessageToJsonString(message, &text, options);
  return status.ok() ? text + "\n" : absl::StrCat("{\"error\": \"reply is not UTF-8\"}\n");
}

}  // namespace medley
