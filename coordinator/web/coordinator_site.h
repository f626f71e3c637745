#pragma once
#include "coordinator/orchestrator/orchestrator.h"
#include "coordinator/store/scheduled_backups.h"
#include "coordinator/store/store.h"
#include "coordinator/web/coordinator_metrics.h"
#include "coordinator/web/web_api.h"
#include "runtime/daemon/rpc_figures.h"
#include "runtime/web/open_metrics.h"
#include "runtime/web/web_server.h"

namespace medley {

// What the coordinator serves over HTTP: the dashboard's page to everybody, /healthz to everybody, /metrics to viewers, and the rpcs
// under /api/v1 to whom they are for. Thread-safe.
class CoordinatorSite {
 public:
  // All outlive it.
  CoordinatorSite(Orchestrator& orchestrator, Store& store, RpcFigures& figures, WebApi& api,
                  const v1::TlsConfig* tls, const ScheduledBackups* backups)
      : orchestrator_(orchestrator),
        store_(store),
        figures_(figures),
        api_(api),
        tls_(tls),
        backups_(backups) {}

  WebAnswer Answer(const WebRequest& request);

 private:
  void AddFigures(OpenMetrics& metrics);
  absl::StatusOr<JobsToCount> LookAtJobs(double now_seconds);
  // The page of a job's plan.
  WebAnswer Plan(const std::string& job_id, const WebRequest& request);

  Orchestrator& orchestrator_;
  Store& store_;
  RpcFigures& figures_;
  WebApi& api_;
  const v1::TlsConfig* const tls_;         // null: in the clear
  const ScheduledBackups* const backups_;  // null: none are made
};

}  // namespace medley
