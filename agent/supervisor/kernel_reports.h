#pragma once
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/medley/v1/agent.pb.h"
#include "runtime/base/mutex.h"

namespace medley {

// Which kernels run the ops of a node's devices: each device is asked once in a worker of its own, beside
// whatever runs there, and its answer is kept; one that could not be asked is asked again by the next call.
// Thread-safe; calls wait for one another.
class KernelReports {
 public:
  struct Options {
    std::string node_name;
    std::string worker_program;
    std::vector<v1::Device> devices;
  };
  explicit KernelReports(Options options) : options_(std::move(options)) {}

  // Blocks until all devices have answered, at most until `deadline`; a device that has not by then says so.
  v1::NodeKernels Get(absl::Time deadline);
  const std::vector<v1::Device>& devices() const { return options_.devices; }

 private:
  absl::StatusOr<v1::DeviceKernels> Ask(const v1::Device& device, absl::Time deadline);

  const Options options_;
  Mutex mutex_;
  std::map<std::string, v1::DeviceKernels> known_ ABSL_GUARDED_BY(mutex_);  // by device name
};

}  // namespace medley
