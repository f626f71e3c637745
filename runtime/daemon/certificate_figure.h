#pragma once
#include "absl/time/time.h"
#include "proto/medley/v1/config.pb.h"
#include "runtime/web/open_metrics.h"

namespace medley {

// How long the certificate that a daemon shows is still in force, as its file is now: below 0 once it is no more. Nothing of a daemon in the
// clear (`tls` null), nor where the file cannot be read, which the daemon's log says.
void AddCertificateFigure(const v1::TlsConfig* tls, absl::Time now, OpenMetrics& metrics);

}  // namespace medley
