#include "agent/worker/communication.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "comm/topology/network_devices.h"
#include "comm/ucx/ucx_links.h"
#include "runtime/base/open_files.h"
#include "runtime/base/status_macros.h"
#include "runtime/log/log.h"

namespace medley {
namespace {

// A container may see RDMA devices of its node that it cannot open: none of them, or all but its own.
std::vector<std::string> RdmaDevicesFor(UcxTransport::Links links) {
  if (links != UcxTransport::Links::kAutomatic) return {};
  absl::StatusOr<UcxFindings> found = QueryUcx();
  return found.ok() ? std::move(found->rdma_devices) : std::vector<std::string>();
}

// What the site allows, if it cannot be found out what is near.
std::string NearestDevices(const WorkerSite& site) {
  absl::StatusOr<std::string> nearest =
      NetworkDevicesFor(site.device, site.network_devices, RdmaDevicesFor(site.links));
  if (nearest.ok()) return *std::move(nearest);
  LogWarning(absl::StrCat("network interfaces are not chosen by distance: ", nearest.status().message()));
  return site.network_devices;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Communicator>> MakeCommunicator(const v1::PrepareRequest& request,
                                                               const WorkerSite& site, int rank, int size,
                                                               std::vector<int> peers,
                                                               MessageProtection protection) {
  // Of each peer, a connection of the session, and one of UCX where memory is not shared.
  const int64_t connections = site.links == UcxTransport::Links::kSharedMemory ? 1 : 2;
  RETURN_IF_ERROR(CheckOpenFilesFor(connections * static_cast<int64_t>(peers.size()),
                                    absl::StrCat("the ", peers.size(), " peers of rank ", rank)));
  Communicator::Options options{.attempt = request.attempt(),
                                .rank = rank,
                                .size = size,
                                .peers = std::move(peers),
                                .secret = request.attempt_secret(),
                                .links = site.links,
                                .message_protection = size > 1 ? protection : MessageProtection::kNone,
                                .network_devices = site.network_devices,
                                .session_devices = site.network_devices};
  if (site.links != UcxTransport::Links::kSharedMemory && size > 1)
    options.network_devices = NearestDevices(site);
  return Communicator::Create(options);
}

}  // namespace medley
