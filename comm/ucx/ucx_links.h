#pragma once
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace medley {

enum class UcxLinks {
  kAutomatic,  // shared memory where two ranks are on one host; else RDMA where there is such a device, else
               // TCP
  kTcp,        // TCP always
  kSharedMemory,  // all ranks must be on one host
};

// What the UCX at hand has found on this machine, beside TCP and shared memory.
struct UcxFindings {
  std::vector<std::string> rdma_devices;  // InfiniBand and RoCE, those that this process may open: "mlx5_0"
  bool cuda = false;
  bool rocm = false;
};

// Loads UCX's modules, and asks them. Internal, ResourceExhausted: as UCX says.
absl::StatusOr<UcxFindings> QueryUcx();

// As for UCX_TLS: "tcp,sm,self". What was not found is not asked for, since UCX would warn.
std::string TransportsFor(UcxLinks links, const UcxFindings& found);

// UCX passes over a device that it does not find; so this refuses it. `names` as in "eth0,mlx5_0:1": network
// interfaces, and RDMA devices with their port. Empty: all of them, fine.
// InvalidArgument: one is neither; names it.
absl::Status CheckDevices(const std::string& names,
                          const std::string& rdma_devices = "/sys/class/infiniband");

// "tcp", "shared memory", "rdma" or "self" out of what ucp_ep_print_info says of an endpoint: the kind of its
// lane for messages. "unknown" where it says nothing of the sort.
std::string PathOf(const std::string& endpoint_info);

}  // namespace medley
