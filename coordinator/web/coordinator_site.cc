#include "coordinator/web/coordinator_site.h"

#include <algorithm>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "cli/plan_page.h"
#include "coordinator/orchestrator/job_time.h"
#include "coordinator/web/page_files.h"
#include "runtime/base/status_macros.h"
#include "runtime/daemon/certificate_figure.h"
#include "runtime/security/rpc_roles.h"
#include "runtime/web/metrics_answer.h"

namespace medley {
namespace {

// Labels are bounded: so many jobs that have devices, or had when they were lost, have figures of their own, and of all jobs the newest ones.
constexpr size_t kActiveJobs = 1000;
constexpr int kNewestJobs = 20;
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
  const absl::StatusOr<v1::PlanReport> report =
      orchestrator_.PlanOf(plan, [&] { return !request.is_open(); });
  if (!report.ok()) return ErrorAnswer(report.status());
  return {.content_type = "text/html; charset=utf-8", .body = PlanPage(job_id, *report)};
}

void CoordinatorSite::AddFigures(OpenMetrics& metrics) {
  figures_.AddTo(metrics);
  AddCertificateFigure(tls_, absl::Now(), metrics);
  AddNodeFigures(orchestrator_.Nodes(), metrics);
  const Orchestrator::Leases leases = orchestrator_.CountLeases();
  AddLeaseFigures(leases.held, leases.expiring, leases.lost, metrics);
  AddStoreFigures(store_.Durations(), store_.Failures(), metrics);
  if (backups_ != nullptr) AddBackupFigures(backups_->newest(), backups_->every(), metrics);
  const double now_seconds = UnixSecondsNeverBack();
  const absl::StatusOr<JobsToCount> jobs = LookAtJobs(now_seconds);
  // 0 where the disk does not answer, which is what the figure is for.
  metrics.Single("medley_store_readable", OpenMetrics::Type::kGauge,
                 "1: the coordinator's store can be read.", jobs.ok() ? 1 : 0);
  metrics.Single(
      "medley_store_whole", OpenMetrics::Type::kGauge,
      "0: the newest check of the coordinator's whole store found it damaged, or could not read it.",
      store_.IsWhole() ? 1 : 0);
  if (!jobs.ok()) return;
  AddJobFigures(*jobs, now_seconds, metrics);
  std::vector<v1::Trace> traces;
  for (const v1::Job& job : jobs->shown) {
    if (job.state() != v1::JOB_STATE_RUNNING) continue;
    absl::StatusOr<v1::Trace> trace = store_.GetTrace(job.id());
    if (trace.ok()) traces.push_back(*std::move(trace));
  }
  AddTraceFigures(traces, metrics);
}

absl::StatusOr<JobsToCount> CoordinatorSite::LookAtJobs(double now_seconds) {
  JobsToCount jobs;
  ASSIGN_OR_RETURN(jobs.counts, store_.CountEndedJobs());
  ASSIGN_OR_RETURN(jobs.shown, store_.ListJobs(kNewestJobs));
  ASSIGN_OR_RETURN(jobs.profiles, store_.ListProfiles());
  std::set<std::string> shown;
  for (const v1::Job& job : jobs.shown) shown.insert(job.id());
  size_t active = 0;
  for (const JobJournal::Standing& job : orchestrator_.journal().Unfinished()) {
    ++jobs.counts[job.state];
    if (job.state == v1::JOB_STATE_QUEUED || job.state == v1::JOB_STATE_RECOVERING) {
      ++jobs.waiting;
      jobs.oldest_wait_seconds = std::max(jobs.oldest_wait_seconds, now_seconds - job.since_seconds);
    }
    if (job.state == v1::JOB_STATE_QUEUED || ++active > kActiveJobs || !shown.insert(job.id).second) continue;
    absl::StatusOr<v1::Job> written = store_.GetJob(job.id);
    if (written.ok()) jobs.shown.push_back(*std::move(written));
  }
  return jobs;
}

}  // namespace medley
