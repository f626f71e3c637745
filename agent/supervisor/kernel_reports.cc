#include "agent/supervisor/kernel_reports.h"

#include "absl/strings/str_cat.h"
#include "agent/supervisor/worker_process.h"
#include "runtime/base/status_macros.h"

namespace medley {

v1::NodeKernels KernelReports::Get(absl::Time deadline) {
  v1::NodeKernels report;
  report.set_node(options_.node_name);
  MutexLock lock(mutex_);
  for (const v1::Device& device : options_.devices) {
    v1::DeviceKernels& answer = *report.add_devices();
    if (const auto known = known_.find(device.name()); known != known_.end()) {
      answer = known->second;
      continue;
    }
    absl::StatusOr<v1::DeviceKernels> asked = Ask(device, deadline);
    if (asked.ok()) {
      answer = *std::move(asked);
    } else {
      answer.set_failure(std::string(asked.status().message()));
    }
    answer.set_device(device.name());
    if (answer.failure().empty()) known_[device.name()] = answer;
  }
  return report;
}

absl::StatusOr<v1::DeviceKernels> KernelReports::Ask(const v1::Device& device, absl::Time deadline) {
  ASSIGN_OR_RETURN(const std::unique_ptr<WorkerProcess> worker,
                   WorkerProcess::Start({.program = options_.worker_program,
                                         .name = absl::StrCat(options_.node_name, "/", device.name())}));
  v1::WorkerCommand command;
  *command.mutable_describe_kernels() = device;
  (void)worker->Send(command);  // if the worker is gone, its end is the reply
  while (true) {
    ASSIGN_OR_RETURN(v1::WorkerReply reply, worker->Next(deadline));
    if (reply.has_kernels()) return std::move(*reply.mutable_kernels());
    const v1::Finished& end = reply.has_failed() ? reply.failed() : reply.event().finished();
    if (!reply.has_failed() && !reply.event().has_finished()) continue;  // a line that it logged
    if (end.code() == 0) return absl::InternalError("the worker ended without an answer");
    return absl::Status(static_cast<absl::StatusCode>(end.code()), end.message());
  }
}

}  // namespace medley
