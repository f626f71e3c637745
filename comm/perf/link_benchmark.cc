// Prints what UCX links between two processes of this machine do, as "key value" lines: seconds and bytes per
// second, as MeasureLink takes them; the best of a few runs, since others use the machine too.
#include <algorithm>
#include <cstdio>
#include <string>

#include "comm/conformance/peer_process.h"
#include "comm/probe/measure_link.h"
#include "runtime/base/clock.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

constexpr int kRuns = 3;

absl::StatusOr<LinkMeasurement> Measure(UcxTransport::Links links) {
  ASSIGN_OR_RETURN(const std::unique_ptr<PeerProcess> peer,
                   PeerProcess::Start(links, PeerProcess::Task::kFollow));
  const absl::Time deadline = Now() + absl::Seconds(20);
  ASSIGN_OR_RETURN(const LinkMeasurement measured,
                   MeasureLink(peer->transport(), 1, ProbeRole::kLeader, deadline));
  RETURN_IF_ERROR(peer->transport().Close(deadline));
  return measured;
}

absl::Status Print(const std::string& name, UcxTransport::Links links) {
  LinkMeasurement best{.latency_seconds = 1e9};
  for (int run = 0; run < kRuns; ++run) {
    ASSIGN_OR_RETURN(const LinkMeasurement one, Measure(links));
    best.latency_seconds = std::min(best.latency_seconds, one.latency_seconds);
    best.bandwidth_bytes_per_second =
        std::max(best.bandwidth_bytes_per_second, one.bandwidth_bytes_per_second);
    best.all_reduce_bytes_per_second =
        std::max(best.all_reduce_bytes_per_second, one.all_reduce_bytes_per_second);
  }
  std::printf("%s_latency_seconds %.3g\n", name.c_str(), best.latency_seconds);
  std::printf("%s_bandwidth_bytes_per_second %.4g\n", name.c_str(), best.bandwidth_bytes_per_second);
  std::printf("%s_all_reduce_bytes_per_second %.4g\n", name.c_str(), best.all_reduce_bytes_per_second);
  return absl::OkStatus();
}

}  // namespace
}  // namespace medley

int main() {
  for (const auto& [name, links] : {std::pair{"shared_memory", medley::UcxTransport::Links::kSharedMemory},
                                    std::pair{"tcp", medley::UcxTransport::Links::kTcp}}) {
    const absl::Status status = medley::Print(name, links);
    if (!status.ok()) {
      std::fprintf(stderr, "%s: %s\n", name, status.ToString().c_str());
      return 1;
    }
  }
}
