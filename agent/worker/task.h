#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "agent/worker/trace_window.h"
#include "comm/ucx/ucx_transport.h"
#include "proto/medley/v1/agent.pb.h"
#include "runtime/device/device.h"

namespace medley {

// What a worker is given besides its task.
struct WorkerSite {
  DeviceDescription device;
  std::string device_kind;
  UcxTransport::Links links = UcxTransport::Links::kAutomatic;
  std::string network_devices;
  // Whether the agent has asked for an early end, with a checkpoint; lives as long as the process.
  const std::atomic<bool>* finish_early = nullptr;
  // The steps that the agent has asked to be traced; null: nobody asks. Lives as long.
  TraceWindow* trace_window = nullptr;
  // Where the task says how much of its device's memory it uses; null: nobody asks. Lives as long as the process.
  std::atomic<uint64_t>* allocated_bytes = nullptr;
};

// One task of a worker: prepared when created, then run once.
class WorkerTask {
 public:
  virtual ~WorkerTask() = default;
  // For the peers; empty if there are none.
  virtual std::string data_plane_address() const { return ""; }
  // The ranks whose addresses Run needs, and who need its own; none: all.
  virtual std::vector<int> peers() const { return {}; }
  virtual Bytes allocated() const = 0;
  // The fingerprint of the token files that it reads (FileWindowSource); empty: it reads none.
  virtual std::string data_fingerprint() const { return ""; }
  // When Run has returned OK: it ended early, as it was asked to, after a checkpoint of this step.
  virtual std::optional<int64_t> stopped_at_step() const { return std::nullopt; }
  // Blocks until the task is done. `addresses`: by rank, those of peers at least. `report` may be called from this thread only.
  virtual absl::Status Run(const std::vector<std::string>& addresses,
                           const std::function<void(const v1::WorkerEvent&)>& report) = 0;
};

// Opens the device with the backend that the description names. NotFound: no such backend; others:
// Backend::open.
absl::StatusOr<Device> OpenDevice(const DeviceDescription& description);

absl::StatusOr<std::unique_ptr<WorkerTask>> PrepareTraining(const v1::PrepareRequest& request,
                                                            const WorkerSite& site);
absl::StatusOr<std::unique_ptr<WorkerTask>> PrepareProfile(const v1::PrepareRequest& request,
                                                           const WorkerSite& site);
absl::StatusOr<std::unique_ptr<WorkerTask>> PrepareProbe(const v1::PrepareRequest& request,
                                                         const WorkerSite& site);

}  // namespace medley
