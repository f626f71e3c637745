#include "runtime/web/metrics_answer.h"

#include "absl/strings/str_cat.h"
#include "runtime/security/rpc_roles.h"
#include "runtime/web/process_figures.h"

namespace medley {

WebAnswer AnswerMetrics(const WebRequest& request, absl::FunctionRef<void(OpenMetrics&)> add) {
  if (request.path == "/healthz") return {.body = "ok\n"};
  if (request.path != "/metrics")
    return {.status = 404, .body = absl::StrCat("there is nothing at ", request.path, "\n")};
  // As for looking at jobs.
  if (!MayCall(request.caller.role, "/medley.v1.Coordinator/ListJobs"))
    return {.status = request.caller.name.empty() ? 401 : 403,
            .body = "/metrics needs a client certificate with the role viewer\n"};
  OpenMetrics metrics;
  AddProcessFigures(metrics);
  add(metrics);
  return {.content_type = OpenMetrics::kContentType, .body = metrics.Text()};
}

}  // namespace medley
