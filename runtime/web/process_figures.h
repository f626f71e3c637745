#pragma once
#include "runtime/web/open_metrics.h"

namespace medley {

// Of this process, under the names that all of Prometheus' clients have: processor time, memory, descriptors, start; and the version.
void AddProcessFigures(OpenMetrics& metrics);

}  // namespace medley
