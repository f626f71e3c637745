#pragma once
#include "absl/functional/function_ref.h"
#include "runtime/web/open_metrics.h"
#include "runtime/web/web_server.h"

namespace medley {

// What a daemon says at /metrics, to viewers: figures of its process, and those that `add` adds. And at /healthz, to everybody. NotFound of
// other paths.
WebAnswer AnswerMetrics(const WebRequest& request, absl::FunctionRef<void(OpenMetrics&)> add);

}  // namespace medley
