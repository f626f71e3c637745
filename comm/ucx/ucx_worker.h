#pragma once
#include <ucp/api/ucp.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace medley {

// Owns a UCX context and its one worker. Not thread-safe: the owner serialises every call, those on get()
// included.
class UcxWorker {
 public:
  struct Options {
    std::string transports;       // as UCX_TLS: "tcp,self"
    std::string network_devices;  // as UCX_NET_DEVICES: "eth0,mlx5_0:1"; empty: all
    int peers = 1;
  };
  // Unavailable: no such transport or device here. Internal, ResourceExhausted: as UCX says.
  static absl::StatusOr<std::unique_ptr<UcxWorker>> Create(const Options& options);
  // Takes what UCX still has under way back, with callbacks; endpoints need not have been closed.
  ~UcxWorker();
  UcxWorker(const UcxWorker&) = delete;
  UcxWorker& operator=(const UcxWorker&) = delete;

  enum class Reach { kAny, kNetwork };
  // The packed address of all transports, or of the network devices alone.
  absl::StatusOr<std::string> PackAddress(Reach reach) const;

  ucp_worker_h get() const { return worker_; }
  ucp_context_h context() const { return context_; }
  // UCS_BIT of every ucs_memory_type_t that messages may lie in.
  uint64_t memory_types() const { return memory_types_; }
  // Readable when an armed worker has something to do. Owned by the worker.
  int event_descriptor() const { return event_descriptor_; }

 private:
  UcxWorker() = default;

  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  uint64_t memory_types_ = 0;
  int event_descriptor_ = -1;
};

}  // namespace medley
