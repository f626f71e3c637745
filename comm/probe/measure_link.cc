#include "comm/probe/measure_link.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "comm/probe/measure_by_size.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

constexpr double kTolerance = 0.03;  // medians of one machine differ by as much from run to run
constexpr int kMostPoints = 12;

// A LinkMeasurement on the wire; both ends are builds of one version.
struct Report {
  double latency_seconds = 0, bandwidth_bytes_per_second = 0, all_reduce_bytes_per_second = 0;
  uint64_t transfer_points = 0, exchange_points = 0;
  LinkPoint transfer[kMostPoints], exchange[kMostPoints];
};

Report Encode(const LinkMeasurement& link) {
  Report report{link.latency_seconds, link.bandwidth_bytes_per_second, link.all_reduce_bytes_per_second,
                link.cost.transfer.points.size(), link.cost.exchange.points.size()};
  std::copy(link.cost.transfer.points.begin(), link.cost.transfer.points.end(), report.transfer);
  std::copy(link.cost.exchange.points.begin(), link.cost.exchange.points.end(), report.exchange);
  return report;
}

absl::StatusOr<LinkMeasurement> Decode(const Report& report) {
  const double numbers[] = {report.latency_seconds, report.bandwidth_bytes_per_second,
                            report.all_reduce_bytes_per_second};
  for (const double number : numbers) {
    if (!(std::isfinite(number) && number > 0))
      return absl::InvalidArgumentError("the leader's figures are no numbers");
  }
  if (report.transfer_points > kMostPoints || report.exchange_points > kMostPoints) {
    return absl::InvalidArgumentError("the leader's models have too many points");
  }
  LinkMeasurement link{report.latency_seconds, report.bandwidth_bytes_per_second,
                       report.all_reduce_bytes_per_second};
  link.cost.transfer.points.assign(report.transfer, report.transfer + report.transfer_points);
  link.cost.exchange.points.assign(report.exchange, report.exchange + report.exchange_points);
  RETURN_IF_ERROR(Annotate(CheckLinkModel(link.cost.transfer), "the leader's transfer"));
  RETURN_IF_ERROR(Annotate(CheckLinkModel(link.cost.exchange), "the leader's exchange"));
  return link;
}

absl::StatusOr<LinkMeasurement> Lead(LinkProber& prober) {
  ASSIGN_OR_RETURN(const std::vector<LinkPoint> transfer, MeasureBySize([&](size_t bytes, int times) {
                     return prober.TransferSeconds(bytes, times);
                   }));
  ASSIGN_OR_RETURN(const std::vector<LinkPoint> exchange, MeasureBySize([&](size_t bytes, int times) {
                     return prober.ExchangeSeconds(bytes, times);
                   }));
  LinkMeasurement link;
  link.latency_seconds = transfer.front().seconds;
  // Where the latency weighs as much as the message, noise must not win.
  const LinkPoint& largest = transfer.back();
  link.bandwidth_bytes_per_second =
      largest.bytes / std::max(largest.seconds - link.latency_seconds, largest.seconds / 4);
  link.all_reduce_bytes_per_second = exchange.back().bytes / exchange.back().seconds;
  link.cost.transfer = FitLinkModel(transfer, kTolerance, kMostPoints);
  link.cost.exchange = FitLinkModel(exchange, kTolerance, kMostPoints);
  RETURN_IF_ERROR(prober.Stop());
  const Report report = Encode(link);
  RETURN_IF_ERROR(prober.Send(absl::MakeSpan(reinterpret_cast<const std::byte*>(&report), sizeof(report))));
  return link;
}

absl::StatusOr<LinkMeasurement> Follow(LinkProber& prober) {
  RETURN_IF_ERROR(prober.Follow());
  Report report;
  RETURN_IF_ERROR(prober.Receive(absl::MakeSpan(reinterpret_cast<std::byte*>(&report), sizeof(report))));
  return Decode(report);
}

}  // namespace

absl::StatusOr<LinkMeasurement> MeasureLink(Transport& transport, int peer, ProbeRole role,
                                            absl::Time deadline) {
  LinkProber prober(transport, peer, deadline);
  RETURN_IF_ERROR(prober.Greet(role));
  return role == ProbeRole::kLeader ? Lead(prober) : Follow(prober);
}

}  // namespace medley
