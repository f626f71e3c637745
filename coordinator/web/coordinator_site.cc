#include "coordinator/web/coordinator_site.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cli/plan_page.h"
#include "coordinator/web/coordinator_metrics.h"
#include "coordinator/web/page_files.h"
#include "runtime/base/unix_time.h"
#include "runtime/security/rpc_roles.h"
#include "runtime/web/metrics_answer.h"

namespace medley {
namespace {

constexpr int kCountedJobs = 1000;
constexpr char kPlan[] = "/plan/";

}  // namespace

WebAnswer CoordinatorSite::Answer(const WebRequest& request) {
  if (request.path == "/api/v1" || absl::StartsWith(request.path, "/api/v1/")) return api_.Answer(request);
  if (request.method != "GET") return {.status = 405, .body = "only what is under /api/v1 takes a POST\n"};
  if (absl::StartsWith(request.path, kPlan)) return Plan(request.path.substr(sizeof(kPlan) - 1), request);
  for (const PageFile& file : PageFiles()) {
    if (request.path == absl::StrCat("/", file.name) || (request.path == "/" && file.name == "index.html"))
      return {.content_type = std::string(file.content_type), .body = std::string(file.text)};
  }
  return AnswerMetrics(request, [this](OpenMetrics& metrics) { AddFigures(metrics); });
}

WebAnswer CoordinatorSite::Plan(const std::string& job_id, const WebRequest& request) {
  if (!MayCall(request.caller.role, "/medley.v1.Coordinator/GetPlan"))
    return ErrorAnswer(
        absl::PermissionDeniedError("GetPlan needs a client certificate with the role viewer"));
  v1::GetPlanRequest plan;
  plan.set_job_id(job_id);
  plan.set_with_predicted_step(true);
  const absl::StatusOr<v1::PlanReport> report = orchestrator_.PlanOf(plan);
  if (!report.ok()) return ErrorAnswer(report.status());
  return {.content_type = "text/html; charset=utf-8", .body = PlanPage(job_id, *report)};
}

void CoordinatorSite::AddFigures(OpenMetrics& metrics) {
  figures_.AddTo(metrics);
  AddNodeFigures(orchestrator_.Nodes(), metrics);
  const absl::StatusOr<std::vector<v1::Job>> jobs = orchestrator_.journal().List(kCountedJobs);
  // 0 where the disk does not answer, which is what the figure is for.
  metrics.Single("medley_store_readable", OpenMetrics::Type::kGauge,
                 "1: the coordinator's store can be read.", jobs.ok() ? 1 : 0);
  if (!jobs.ok()) return;
  AddJobFigures(*jobs, UnixSecondsNow(), metrics);
  std::vector<v1::Trace> traces;
  for (const v1::Job& job : *jobs) {
    if (job.state() != v1::JOB_STATE_RUNNING) continue;
    absl::StatusOr<v1::Trace> trace = store_.GetTrace(job.id());
    if (trace.ok()) traces.push_back(*std::move(trace));
  }
  AddTraceFigures(traces, metrics);
}

}  // namespace medley
