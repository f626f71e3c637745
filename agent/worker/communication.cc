#include "agent/worker/communication.h"

#include <spdlog/spdlog.h>

#include "comm/topology/network_devices.h"

namespace medley {
namespace {

// What the site allows, if it cannot be found out what is near.
std::string NearestDevices(const WorkerSite& site) {
  const NicNames names =
      site.links == UcxTransport::Links::kAutomatic ? NicNames::kAll : NicNames::kInterfaces;
  absl::StatusOr<std::string> nearest = NetworkDevicesFor(site.device, site.network_devices, names);
  if (nearest.ok()) return *std::move(nearest);
  spdlog::warn("network interfaces are not chosen by distance: {}", std::string(nearest.status().message()));
  return site.network_devices;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Communicator>> MakeCommunicator(const v1::PrepareRequest& request,
                                                               const WorkerSite& site, int rank, int size) {
  Communicator::Options options{.attempt = request.attempt(),
                                .rank = rank,
                                .size = size,
                                .secret = request.attempt_secret(),
                                .links = site.links,
                                .network_devices = site.network_devices};
  if (site.links != UcxTransport::Links::kSharedMemory && size > 1)
    options.network_devices = NearestDevices(site);
  return Communicator::Create(options);
}

}  // namespace medley
