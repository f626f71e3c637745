#pragma once
#include <functional>
#include <thread>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "coordinator/store/store.h"
#include "runtime/base/stop_signal.h"

namespace medley {

// Looks again and again whether the whole file is still whole, beside whoever reads and writes: disks rot while daemons run for months.
// Owns a thread, which the destructor ends; a look that is under way is ended first, which takes as long as reading the file.
class PeriodicCheck {
 public:
  // `told`, from that thread: what each look found. DataLoss: the file is damaged.
  PeriodicCheck(Store& store, absl::Duration every, std::function<void(const absl::Status&)> told);
  ~PeriodicCheck();

 private:
  void Loop();

  Store& store_;
  const absl::Duration every_;
  const std::function<void(const absl::Status&)> told_;
  StopSignal stop_;
  std::thread thread_;
};

}  // namespace medley
