#include <ucp/api/ucp.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "agent/worker/communication.h"
#include "agent/worker/memory_link.h"
#include "agent/worker/task.h"
#include "comm/probe/link_prober.h"
#include "comm/probe/measure_link.h"
#include "comm/staging/measure_copies.h"
#include "runtime/base/clock.h"
#include "runtime/base/current_phase.h"
#include "runtime/base/status_macros.h"
#include "runtime/base/unix_time.h"
#include "runtime/base/version.h"
#include "runtime/wire/link_codec.h"
#include "runtime/wire/message_protection_codec.h"

namespace medley {
namespace {

constexpr absl::Duration kConnectTime = absl::Seconds(20);
constexpr absl::Duration kMeasureTime = absl::Seconds(30);
constexpr size_t kMostProvenance = 1024;  // of LinkProfile

// This end, for people: "node7 over eth0, UCX 1.13.1, Medley 0.1".
std::string DescribeEnd(const WorkerSite& site) {
  char host[256] = {};
  gethostname(host, sizeof(host) - 1);
  return absl::StrCat(host, site.network_devices.empty() ? "" : " over ", site.network_devices, ", UCX ",
                      ucp_get_version_string(), ", Medley ", kMedleyVersion);
}

// What the transport says of its way to `peer`; empty if it does not.
std::string PathTo(const Transport& transport, int peer) {
  for (const PeerTraffic& traffic : transport.Traffic()) {
    if (traffic.peer == peer && !traffic.path.empty()) return traffic.path;
  }
  return "";
}

class ProbeWorkerTask final : public WorkerTask {
 public:
  ProbeWorkerTask(Device device, std::unique_ptr<Communicator> communicator, int rank, std::string end)
      : device_(std::move(device)),
        communicator_(std::move(communicator)),
        rank_(rank),
        end_(std::move(end)) {}

  std::string data_plane_address() const override { return communicator_->address(); }
  Bytes allocated() const override { return {0}; }

  absl::Status Run(const std::vector<std::string>& addresses,
                   const std::function<void(const v1::WorkerEvent&)>& report) override {
    CurrentPhase::OfProcess().Enter("measuring the link", /*waits_for_peers=*/true);
    RETURN_IF_ERROR(communicator_->Connect(addresses, Now() + kConnectTime));
    Transport& transport = communicator_->transport();
    ASSIGN_OR_RETURN(const LinkMeasurement link,
                     MeasureLink(transport, 1 - rank_, rank_ == 0 ? ProbeRole::kLeader : ProbeRole::kFollower,
                                 Now() + kMeasureTime));
    ASSIGN_OR_RETURN(const std::string other_end,
                     ExchangeText(transport, 1 - rank_, end_, Now() + kMeasureTime));
    ASSIGN_OR_RETURN(const MemoryLink memories, MeasureMemories(transport, link.cost.transfer));
    v1::WorkerEvent event;
    v1::LinkProfile& profile = *event.mutable_link();
    profile.set_latency_seconds(link.latency_seconds);
    profile.set_bytes_per_second(link.bandwidth_bytes_per_second);
    profile.set_all_reduce_bytes_per_second(link.all_reduce_bytes_per_second);
    profile.set_measured_at_seconds(UnixSecondsNow());
    *profile.mutable_transfer() = EncodeLinkModel(memories.transfer);
    *profile.mutable_exchange() = EncodeLinkModel(link.cost.exchange);
    profile.set_transport(PathTo(transport, 1 - rank_));
    profile.set_message_protection(EncodeMessageProtection(communicator_->ProtectionWith(1 - rank_)));
    profile.set_provenance(absl::StrCat(rank_ == 0 ? end_ : other_end, " - ", rank_ == 0 ? other_end : end_,
                                        memories.explanation.empty() ? "" : ". ", memories.explanation)
                               .substr(0, kMostProvenance));
    report(event);
    (void)communicator_->Close(Now() + absl::Seconds(1));
    return absl::OkStatus();
  }

 private:
  // The link between the two devices' memories, the same at both ends.
  absl::StatusOr<MemoryLink> MeasureMemories(Transport& transport, const LinkModel& between_hosts) {
    ASSIGN_OR_RETURN(const EndMemory own, MeasureMemory(*device_.queue, transport));
    ASSIGN_OR_RETURN(const std::string text,
                     ExchangeText(transport, 1 - rank_, EncodeMemory(own), Now() + kMeasureTime));
    ASSIGN_OR_RETURN(const EndMemory other, DecodeMemory(text));
    return rank_ == 0 ? LinkOf(own, other, between_hosts) : LinkOf(other, own, between_hosts);
  }

  Device device_;  // open, so that the probe runs on the device's own cores
  std::unique_ptr<Communicator> communicator_;
  const int rank_;
  const std::string end_;  // for people
};

}  // namespace

absl::StatusOr<std::unique_ptr<WorkerTask>> PrepareProbe(const v1::PrepareRequest& request,
                                                         const WorkerSite& site) {
  ASSIGN_OR_RETURN(Device device, OpenDevice(site.device));
  const int rank = static_cast<int>(request.probe().rank());
  ASSIGN_OR_RETURN(std::unique_ptr<Communicator> communicator,
                   MakeCommunicator(request, site, rank, /*size=*/2, /*peers=*/{1 - rank},
                                    DecodeMessageProtection(request.probe().message_protection())));
  return std::make_unique<ProbeWorkerTask>(std::move(device), std::move(communicator), rank,
                                           DescribeEnd(site));
}

}  // namespace medley
