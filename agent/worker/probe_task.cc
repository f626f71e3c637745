#include "absl/time/clock.h"
#include "agent/worker/task.h"
#include "comm/probe/measure_link.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

constexpr absl::Duration kConnectTime = absl::Seconds(20);
constexpr absl::Duration kMeasureTime = absl::Seconds(30);

class ProbeWorkerTask final : public WorkerTask {
 public:
  ProbeWorkerTask(Device device, std::unique_ptr<UcxTransport> transport, int rank)
      : device_(std::move(device)), transport_(std::move(transport)), rank_(rank) {}

  std::string data_plane_address() const override { return transport_->address(); }
  Bytes allocated() const override { return {0}; }

  absl::Status Run(const std::vector<std::string>& addresses,
                   const std::function<void(const v1::WorkerEvent&)>& report) override {
    RETURN_IF_ERROR(transport_->Connect(addresses, absl::Now() + kConnectTime));
    ASSIGN_OR_RETURN(const LinkMeasurement link,
                     MeasureLink(*transport_, 1 - rank_, rank_ == 0 ? ProbeRole::kLeader : ProbeRole::kFollower,
                                 absl::Now() + kMeasureTime));
    v1::WorkerEvent event;
    event.mutable_link()->set_latency_seconds(link.latency_seconds);
    event.mutable_link()->set_bytes_per_second(link.bandwidth_bytes_per_second);
    event.mutable_link()->set_all_reduce_bytes_per_second(link.all_reduce_bytes_per_second);
    event.mutable_link()->set_measured_at_seconds(absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch()));
    report(event);
    (void)transport_->Close(absl::Now() + absl::Seconds(1));
    return absl::OkStatus();
  }

 private:
  Device device_;  // open, so that the probe runs on the device's own cores
  std::unique_ptr<UcxTransport> transport_;
  const int rank_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<WorkerTask>> PrepareProbe(const v1::PrepareRequest& request, const WorkerSite& site) {
  ASSIGN_OR_RETURN(Device device, OpenDevice(site.device));
  const int rank = static_cast<int>(request.probe().rank());
  ASSIGN_OR_RETURN(std::unique_ptr<UcxTransport> transport,
                   UcxTransport::Create({.epoch = request.epoch(), .rank = rank, .size = 2, .links = site.links,
                                         .network_devices = site.network_devices}));
  return std::make_unique<ProbeWorkerTask>(std::move(device), std::move(transport), rank);
}

}  // namespace medley
