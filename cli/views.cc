#include "cli/views.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "cli/memory_view.h"
#include "cli/number_format.h"
#include "cli/progress.h"
#include "cli/text_table.h"
#include "runtime/base/bytes.h"
#include "runtime/base/counted.h"
#include "runtime/base/some_names.h"
#include "runtime/wire/enum_names.h"
#include "runtime/wire/json_message.h"
#include "runtime/wire/model_flops.h"

namespace medley {
namespace {

using Rows = std::vector<std::vector<std::string>>;

constexpr size_t kMostOfWhy = 80;
// Of more routes a plan is told by classes.
constexpr int kMostRoutesShown = 16;
// JobSpec.max_restarts where it is unset.
constexpr uint32_t kDefaultRestarts = 3;

std::string FormatSize(uint64_t bytes) { return FormatBytes({static_cast<int64_t>(bytes)}); }

std::string DevicesOf(const v1::PlanReport& report) {
  std::vector<std::string> names;
  for (const v1::Unit& unit : report.plan().units()) {
    for (const std::string& device : unit.devices()) names.push_back(Printable(device));
  }
  return SomeNames(names);
}

std::string LossOf(const v1::Job& job) {
  if (job.last_step().step() == 0) return "";
  if (job.last_step().skipped()) return "skipped";
  return job.last_step().emulated() ? "emulated" : absl::StrFormat("%.4f", job.last_step().loss());
}

std::string WhyOf(const v1::Job& job) {
  if (!IsHeld(job)) return Printable(job.state_reason());
  return absl::StrCat("held, until `medley release ", Printable(job.id()), "`");
}

// Empty: there were none.
std::string RestartsOf(const v1::Job& job) {
  if (job.restarts() == 0) return "";
  const uint32_t most = job.spec().has_max_restarts() ? job.spec().max_restarts() : kDefaultRestarts;
  return absl::StrCat(job.restarts(), ", of them ", job.restarts_without_progress(), " of ", most,
                      " allowed since the last checkpoint");
}

std::string EmulatedDevicesOf(const v1::PlanReport& report) {
  std::vector<std::string> names;
  for (const v1::DeviceShare& share : report.devices()) {
    if (share.used() && share.emulated()) names.push_back(Printable(share.device()));
  }
  return SomeNames(names);
}

// Those of the used devices that do not compute in what the job says.
std::string InF32Instead(const v1::PlanReport& report) {
  std::vector<std::string> names;
  for (const v1::DeviceShare& share : report.devices()) {
    if (share.used() && share.computes_f32_instead()) names.push_back(Printable(share.device()));
  }
  if (names.empty()) return "";
  return absl::StrCat(SomeNames(names), names.size() == 1 ? " computes" : " compute", " this job in f32");
}

std::string FormatDevices(const v1::PlanReport& report, size_t columns) {
  Rows rows = {{"DEVICE", "BLOCKS", "MICRO-BATCHES", "BUSY", "MEMORY", "LIMIT", "KIND"}};
  for (const v1::DeviceShare& share : report.devices()) {
    rows.push_back({Printable(share.device()), share.used() ? absl::StrCat(share.blocks()) : "-",
                    share.used() ? absl::StrCat(share.micro_batches()) : "-",
                    share.used() ? absl::StrFormat("%.0f %%", share.busy_share() * 100) : "-",
                    share.used() ? FormatSize(share.peak_memory_bytes()) : "-",
                    FormatSize(share.memory_limit_bytes()), Printable(share.kind())});
  }
  std::string text = FormatTable(MergeAlike(std::move(rows)), columns);
  const std::string in_f32 = InF32Instead(report);
  if (!in_f32.empty()) absl::StrAppend(&text, in_f32, "\n");
  for (const v1::LeftOutDevice& device : report.left_out()) {
    absl::StrAppend(&text, "left out: ", Printable(device.device()), ": ", Printable(device.why()), "\n");
  }
  return text;
}

// What the prediction was made from.
std::string FormatProfiles(const v1::PlanReport& report, size_t columns) {
  Rows rows = {{"KIND", "MEASURED", "SPREAD", "ON AND WITH", "CORRECTION"}};
  std::string doubts;
  for (const v1::ProfileUse& profile : report.profiles()) {
    const std::string share = profile.share().empty() ? "" : absl::StrCat(", ", profile.share());
    rows.push_back({Printable(absl::StrCat(profile.device_kind(), share)),
                    FormatTime(profile.measured_at_seconds()),
                    profile.spread() > 0 ? absl::StrFormat("%.1f %%", profile.spread() * 100) : "-",
                    Printable(profile.provenance()), Printable(profile.correction())});
    for (const std::string& doubt : profile.doubts()) {
      absl::StrAppend(&doubts, "DOUBTFUL: ", Printable(profile.device_kind()), ": ", Printable(doubt), "\n");
    }
  }
  if (std::all_of(rows.begin() + 1, rows.end(), [](const auto& row) { return row.back().empty(); })) {
    for (std::vector<std::string>& row : rows) row.pop_back();
  }
  return rows.size() == 1 ? "" : absl::StrCat("\n", FormatTable(rows, columns), doubts);
}

std::string FormatRejected(const v1::PlanReport& report, size_t columns) {
  Rows rows = {{"INSTEAD", "STEP", "WHY NOT", "PLAN"}};
  for (const v1::RejectedPlan& rejected : report.rejected()) {
    const bool fits = rejected.predicted_step_seconds() > 0;
    rows.push_back({Printable(rejected.kind()),
                    fits ? FormatStepSeconds(rejected.predicted_step_seconds()) : "none fits",
                    Printable(rejected.why_slower()), Printable(rejected.description())});
  }
  return FormatTable(rows, columns);
}

// Nothing of one kind: the devices say it all.
std::string FormatKinds(const v1::PlanReport& report, size_t columns) {
  if (report.kinds().size() < 2) return "";
  const auto percent = [](double share) { return absl::StrFormat("%.0f %%", 100 * share); };
  Rows rows = {{"KIND", "IN USE", "OF THE WORK", "BUSY", "FULLEST"}};
  for (const v1::KindShare& kind : report.kinds()) {
    const bool used = kind.used() > 0;
    rows.push_back({Printable(kind.kind()), absl::StrCat(kind.used(), " of ", kind.devices()),
                    used ? percent(kind.work_share()) : "-", used ? percent(kind.busy_share()) : "-",
                    used ? percent(kind.memory_share()) : "-"});
  }
  return absl::StrCat("\n", FormatTable(rows, columns));
}

std::string FormatHelps(const v1::PlanReport& report, size_t columns) {
  if (!report.compared()) return "";
  if (report.helpful_changes().empty())
    return "\nNeither faster links nor anything else that was tried would make steps shorter by half a per "
           "cent.\n";
  Rows rows = {{"WOULD HELP", "STEP", "LESS", "WITH"}};
  for (const v1::HelpfulChange& change : report.helpful_changes()) {
    const double seconds = change.predicted_step_seconds();
    rows.push_back({Printable(change.change()), FormatStepSeconds(seconds),
                    absl::StrFormat("%.1f %%", 100 * (1 - seconds / report.predicted_step_seconds())),
                    change.planned_anew() ? "another plan" : "this plan"});
  }
  return absl::StrCat("\n", FormatTable(rows, columns));
}

std::string FormatPareto(const v1::PlanReport& report, size_t columns) {
  if (report.pareto().empty()) return "";
  Rows rows = {{"DEVICES", "CHOSEN", "STEP", "TOKENS/S", "AN HOUR", "JOB TAKES", "JOB COSTS", "BOUND BY"}};
  for (const v1::ParetoPlan& plan : report.pareto()) {
    std::vector<std::string> devices;
    for (const v1::KindCount& count : plan.devices())
      devices.push_back(absl::StrCat(Printable(count.kind()), " x ", count.devices()));
    rows.push_back({absl::StrJoin(devices, " + "), plan.chosen() ? "yes" : "",
                    FormatStepSeconds(plan.predicted_step_seconds()),
                    FormatRate(plan.predicted_tokens_per_second()), FormatAmount(plan.price_per_hour()),
                    FormatDuration(plan.job_seconds()), FormatAmount(plan.job_cost()),
                    Printable(plan.bottleneck())});
  }
  return absl::StrCat("\n", FormatTable(rows, columns),
                      report.pareto_complete() ? "no other plan is both faster and as cheap as one of these\n"
                                               : "there may be others, faster or cheaper\n");
}

// What the explanation says in sentences, before its first empty line; its tables are in the report's fields,
// too, and are shown as all others.
std::string ProseOf(const v1::PlanReport& report, size_t columns) {
  const std::string all = report.explanation().substr(0, report.explanation().find("\n\n"));
  if (all.empty()) return absl::StrCat(Printable(report.description()), "\n");
  std::string text;
  for (const absl::string_view line : absl::StrSplit(all, '\n', absl::SkipEmpty())) {
    // What is indented goes on with the line before.
    if (text.empty()) {
      text = std::string(line);
    } else if (absl::StartsWith(line, "  ")) {
      absl::StrAppend(&text, " ", absl::StripLeadingAsciiWhitespace(line));
    } else {
      absl::StrAppend(&text, "\n", line);
    }
  }
  std::string wrapped;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    absl::StrAppend(&wrapped, absl::StrJoin(WrapText(Printable(std::string(line)), columns), "\n  "), "\n");
  }
  return wrapped;
}

const std::vector<std::string> kStepHeading = {"STEP",    "LOSS",     "GRADIENT NORM", "LEARNING RATE",
                                               "SECONDS", "TOKENS/S", "ATTEMPT",       "VALIDATION"};

Rows StepRows(const v1::ListStepsResponse& steps) {
  Rows rows;
  int next = 0;
  for (const v1::StepMetrics& step : steps.steps()) {
    while (next < steps.validations_size() && steps.validations(next).step() < step.step()) ++next;
    const bool validated = next < steps.validations_size() && steps.validations(next).step() == step.step();
    const bool finite = !step.emulated() && !step.skipped();
    rows.push_back(
        {absl::StrCat(step.step()),
         finite            ? absl::StrFormat("%.6f", step.loss())
         : step.emulated() ? "emulated"
                           : "skipped",
         finite ? absl::StrFormat("%.4f", step.gradient_norm()) : "-",
         absl::StrFormat("%.3e", step.learning_rate()), absl::StrFormat("%.4f", step.step_seconds()),
         step.step_seconds() > 0 ? absl::StrFormat("%.0f", step.tokens() / step.step_seconds()) : "-",
         absl::StrCat(step.attempt()),
         validated && !step.emulated() ? absl::StrFormat("%.6f", steps.validations(next).loss()) : "-"});
  }
  return rows;
}

// "31.2 TFLOP/s, 42 % of what its devices make of large products"
std::string ModelFlopsOf(const v1::Job& job, double peak_flops_per_second) {
  const double flops = ModelFlopsPerSecond(job);
  if (flops <= 0) return "";
  const std::string share =
      peak_flops_per_second > 0
          ? absl::StrCat(", ", absl::StrFormat("%.0f", 100 * flops / peak_flops_per_second),
                         " % of what its devices make of large products")
          : "";
  return absl::StrCat(FormatFlops(flops), share);
}

}  // namespace

std::string QualityOf(const v1::PlanReport& report) {
  if (report.pinned()) return "named by the job";
  if (report.objective() == v1::OBJECTIVE_COST)
    return report.proven_optimal() ? "proven to cost least" : "the cheapest found";
  if (report.proven_optimal())
    return report.orders().empty() ? "proven optimal" : "proven optimal among named schedules";
  const double bound = report.lower_bound_seconds();
  if (!(bound > 0)) return "best found";
  const bool in_any_order = report.orders().empty() || report.plan().schedule() == v1::SCHEDULE_LISTED;
  const char* const which = report.bound_under_1f1b_alone() ? " under 1f1b"
                            : in_any_order                  ? ""
                                                            : " with a named schedule";
  return absl::StrFormat("at most %.1f %% slower than the best possible%s",
                         (report.predicted_step_seconds() / bound - 1) * 100, which);
}

std::string ErrorOf(const v1::PlanReport& report) {
  if (!report.has_prediction_error()) return "";
  const v1::PredictionError& error = report.prediction_error();
  const auto percent = [](double share) { return std::max(1L, std::lround(100 * share)); };
  const std::string from =
      error.live_runs() > 0 ? absl::StrCat("learnt from ", Counted(error.live_runs(), "run"), " here")
      : error.basis() > v1::PREDICTION_BASIS_MEASURED_DEVICES ? "data sheets and published measurements"
                                                              : "published measurements";
  return absl::StrCat("within ", percent(error.usual()), " % two times of three, ", percent(error.wide()),
                      " % nine of ten (", from, ")");
}

std::string ProtectionOf(const v1::PlanReport& report) {
  const auto* value = v1::MessageProtection_descriptor()->FindValueByNumber(report.message_protection());
  if (report.message_protection() <= v1::MESSAGE_PROTECTION_NONE || value == nullptr) return "";
  return absl::StrCat("between hosts are protected by ", NameOf(*value));
}

std::string PriceOf(const v1::PlanReport& report) {
  if (report.price_per_hour() <= 0) return "";
  int unpriced = 0;
  for (const v1::DeviceShare& share : report.devices()) {
    if (share.used() && share.price_per_hour() == 0) ++unpriced;
  }
  std::string text = absl::StrCat(FormatAmount(report.price_per_hour()), " an hour, ",
                                  FormatAmount(report.cost_per_million_tokens()), " a million tokens, ",
                                  FormatAmount(report.job_cost()), " for the job's ", report.job_steps(),
                                  " steps (", FormatDuration(report.job_seconds()), ")");
  if (unpriced > 0)
    absl::StrAppend(&text, "; ", unpriced, unpriced == 1 ? " device in use has" : " devices in use have",
                    " no price");
  return text;
}

std::string FormatJobs(const v1::ListJobsResponse& jobs, size_t columns) {
  Rows rows = {{"JOB", "STATE", "STEP", "LOSS", "ATTEMPT", "SUBMITTED", "DEVICES", "WHY"}};
  for (const v1::Job& job : jobs.jobs()) {
    rows.push_back({Printable(job.id()), StateName(job.state()),
                    absl::StrCat(job.last_step().step(), "/", job.spec().steps()), LossOf(job),
                    job.attempt() > 0 ? absl::StrCat(job.attempt()) : "-",
                    FormatTime(job.submitted_at_seconds()), DevicesOf(job.plan()),
                    CutToWidth(WhyOf(job), kMostOfWhy)});
  }
  return FormatTable(rows, columns);
}

std::string FormatJob(const v1::Job& job, size_t columns, double peak_flops_per_second) {
  Rows rows = {{"job", Printable(job.id())}, {"state", StateName(job.state())}};
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty() && value != "-") rows.push_back({name, value});
  };
  add("why", WhyOf(job));
  if (job.plan().emulated()) {
    add("EMULATED",
        absl::StrCat(EmulatedDevicesOf(job.plan()), " compute nothing: only the times mean anything"));
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
  if (job.last_step().tokens() > 0) add("tokens/s", TokenRate(job));
  add("model FLOP/s", ModelFlopsOf(job, peak_flops_per_second));
  add("time left", TimeLeft(job, job.last_step().step()));
  add("measured step", FormatStepSeconds(job.measured_step_seconds()));
  const std::string error = ErrorOf(job.plan());
  add("predicted step",
      absl::StrCat(FormatStepSeconds(job.plan().predicted_step_seconds()), error.empty() ? "" : ", ", error));
  add("difference", FormatDifference(job.measured_step_seconds(), job.plan().predicted_step_seconds()));
  if (job.attempt() > 0) add("attempt", absl::StrCat(job.attempt()));
  add("restarts", RestartsOf(job));
  if (!job.checkpoint_path().empty()) {
    add("checkpoint", absl::StrCat(Printable(job.checkpoint_path()), " (step ", job.checkpoint_step(), ")"));
  }
  add("NO CHECKPOINT", Printable(job.checkpoint_problem()));
  add("precision", InF32Instead(job.plan()));
  add("price", PriceOf(job.plan()));
  add("messages", ProtectionOf(job.plan()));
  add("plan", Printable(job.plan().description()));
  return FormatFacts(rows, columns);
}

std::string FormatReplan(const v1::ReplanJobResponse& reply, size_t columns) {
  Rows rows = {{"job", Printable(reply.job().id())}, {"replans", reply.replans() ? "yes" : "no"}};
  if (!reply.decision().empty()) rows.push_back({"why", Printable(reply.decision())});
  if (reply.step_seconds_now() > 0) rows.push_back({"step now", FormatStepSeconds(reply.step_seconds_now())});
  if (reply.step_seconds_then() > 0)
    rows.push_back({"step then", FormatStepSeconds(reply.step_seconds_then())});
  return FormatFacts(rows, columns);
}

// What the devices were measured with, a line a kind: its newest profile.
std::string FormatProfiled(const v1::ListNodesResponse& nodes, size_t columns) {
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
    rows.push_back({Printable(name), absl::StrCat(kind.shapes),
                    FormatTime(kind.newest->measured_at_seconds()), Printable(kind.newest->provenance())});
  }
  return kinds.empty() ? "" : absl::StrCat("\n", FormatTable(rows, columns));
}

std::string FormatNodes(const v1::ListNodesResponse& nodes, size_t columns) {
  constexpr size_t kSiteColumn = 6, kRackColumn = 7;
  Rows rows = {{"DEVICE", "BACKEND", "VARIANT", "CORES", "MEMORY", "NODE", "SITE", "RACK", "JOB"}};
  for (const v1::Node& node : nodes.nodes()) {
    const std::string alive = !node.alive()            ? absl::StrCat("lost ", Printable(node.status()))
                              : !node.drained()        ? "alive"
                              : node.jobs().size() > 0 ? "draining"
                                                       : "drained";
    if (node.devices().empty())
      rows.push_back({absl::StrCat(Printable(node.name()), "/-"), "", "", "", "", alive,
                      Printable(node.site()), Printable(node.rack()), ""});
    for (const v1::Device& device : node.devices()) {
      const auto job = node.jobs().find(device.name());
      rows.push_back({Printable(absl::StrCat(node.name(), "/", device.name())), Printable(device.backend()),
                      Printable(device.variant()), absl::StrJoin(device.cores(), " "),
                      FormatSize(device.memory_bytes()), alive, Printable(node.site()),
                      Printable(node.rack()), job == node.jobs().end() ? "" : Printable(job->second)});
    }
  }
  const auto drop_if_empty = [&](size_t column) {
    const bool said = std::any_of(rows.begin() + 1, rows.end(),
                                  [&](const std::vector<std::string>& row) { return !row[column].empty(); });
    for (std::vector<std::string>& row : rows) {
      if (!said) row.erase(row.begin() + static_cast<std::ptrdiff_t>(column));
    }
  };
  drop_if_empty(kRackColumn);
  drop_if_empty(kSiteColumn);
  return absl::StrCat(FormatTable(rows, columns), FormatProfiled(nodes, columns));
}

std::string FormatSteps(const v1::ListStepsResponse& steps, size_t columns) {
  Rows rows = {kStepHeading};
  for (std::vector<std::string>& row : StepRows(steps)) rows.push_back(std::move(row));
  return FormatTable(rows, columns);
}

std::string FormatMoreSteps(const v1::ListStepsResponse& steps) {
  std::string text;
  for (const std::vector<std::string>& row : StepRows(steps)) {
    std::string line;
    for (size_t c = 0; c < row.size(); ++c) {
      const size_t width = kStepHeading[c].size();
      const std::string padding(width > row[c].size() ? width - row[c].size() : 0, ' ');
      absl::StrAppend(&line, c > 0 ? "  " : "", padding, row[c]);
    }
    absl::StrAppend(&text, line, "\n");
  }
  return text;
}

std::string FormatLogs(const v1::ListLogsResponse& logs) {
  std::string text;
  for (const v1::LogLine& line : logs.lines()) {
    absl::StrAppend(&text, FormatTime(line.at_seconds()), "  ", Printable(line.source()), "  ",
                    Printable(line.text()), "\n");
  }
  return text;
}

std::string FormatAudit(const v1::ListAuditResponse& audit, size_t columns) {
  std::vector<std::vector<std::string>> rows = {{"when", "who", "from", "what", "of", "result"}};
  for (const v1::AuditRecord& record : audit.records()) {
    rows.push_back({FormatTime(record.at_seconds()),
                    record.identity().empty() ? "nobody known" : Printable(record.identity()),
                    Printable(record.peer()), Printable(record.method()), Printable(record.subject()),
                    record.message().empty()
                        ? record.result()
                        : absl::StrCat(record.result(), ": ", Printable(record.message()))});
  }
  return FormatTable(rows, columns);
}

std::string FormatPlan(const v1::PlanReport& report, PlanDetail detail, size_t columns) {
  std::string speed =
      absl::StrCat("predicted step ", FormatStepSeconds(report.predicted_step_seconds()), ", ",
                   FormatRate(report.predicted_tokens_per_second()), " tokens/s; ", QualityOf(report));
  if (report.simulated_plans() > 0)
    absl::StrAppend(&speed, "; ", Counted(report.simulated_plans(), "plan"), " simulated");
  speed = absl::StrJoin(WrapText(speed, columns), "\n");
  const std::string error = ErrorOf(report);
  if (!error.empty()) absl::StrAppend(&speed, "\n", absl::StrJoin(WrapText(error, columns), "\n"));
  const std::string price = PriceOf(report);
  if (!price.empty()) absl::StrAppend(&speed, "\n", absl::StrJoin(WrapText(price, columns), "\n"));
  if (report.emulated()) {
    absl::StrAppend(&speed, "\nEMULATED: ", EmulatedDevicesOf(report),
                    " compute nothing: only the times mean anything");
  }
  const std::string devices = FormatDevices(report, columns);
  if (detail == PlanDetail::kSummary) {
    const bool by_class = report.plan().routes_size() > kMostRoutesShown && !report.fitting().empty();
    const std::vector<std::string> description =
        WrapText(Printable(by_class ? report.fitting() : report.description()), columns);
    return absl::StrCat(absl::StrJoin(description, "\n"), "\n", speed, "\n\n", devices,
                        FormatPareto(report, columns));
  }
  std::string text = absl::StrCat(speed, "\n\n", ProseOf(report, columns), "\n", devices);
  const std::string memory = FormatMemory(report, columns);
  if (!memory.empty()) absl::StrAppend(&text, "\n", memory);
  absl::StrAppend(&text, FormatKinds(report, columns));
  if (!report.rejected().empty()) absl::StrAppend(&text, "\n", FormatRejected(report, columns));
  return absl::StrCat(text, FormatHelps(report, columns), FormatPareto(report, columns),
                      FormatProfiles(report, columns));
}

std::string JsonLine(const google::protobuf::Message& message) { return absl::StrCat(JsonOf(message), "\n"); }

}  // namespace medley
