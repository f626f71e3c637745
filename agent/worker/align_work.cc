#include "agent/worker/align_work.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "agent/discovery/discovery.h"
#include "agent/worker/align_training.h"
#include "agent/worker/task.h"
#include "kernels/backends.h"
#include "runtime/base/status_macros.h"
#include "runtime/device/device_name.h"
#include "runtime/engine/align/replay.h"
#include "runtime/wire/device_codec.h"

namespace medley {
namespace {

absl::StatusOr<DeviceDescription> CompleteNamedDevice(const std::string& name) {
  ASSIGN_OR_RETURN(const DeviceDescription asked, ParseDeviceName(name));
  v1::Device device = EncodeDevice(asked);
  device.set_memory_bytes(DiscoverDevices().front().memory_bytes());
  ASSIGN_OR_RETURN(const std::vector<v1::Device> complete, CompleteDevices({device}, AllBackends()));
  return DecodeDevice(complete.front());
}

// Puts a recorder between the device and whoever uses it.
RecordingOps& Record(Device& device, const CaptureLimits& limits, const AlignDirectory& directory) {
  auto recorder = std::make_unique<RecordingOps>(
      std::move(device.ops), *device.queue, limits,
      [&directory](const CapturedCall& call) { return directory.WriteCall(call); });
  RecordingOps& reference = *recorder;
  device.ops = std::move(recorder);
  return reference;
}

// Until all are done or the device is of no more use.
absl::Status ReplayAll(Device& device, const AlignDirectory& directory, Party party, Precision precision) {
  ASSIGN_OR_RETURN(const std::vector<int64_t> calls, directory.Calls());
  for (const int64_t index : calls) {
    ASSIGN_OR_RETURN(const CapturedCall call, directory.ReadCall(index));
    absl::StatusOr<CallResult> result = Replay(device, call, precision);
    if (!result.ok()) result = CallResult{.index = index, .status = result.status()};
    RETURN_IF_ERROR(directory.WriteResult(party, *result));
    if (!device.queue->Wait(device.queue->Record()).ok()) return absl::OkStatus();  // poisoned
  }
  return absl::OkStatus();
}

absl::Status Work(const AlignWork& work, const AlignDirectory& directory, DeviceRecord& record) {
  ASSIGN_OR_RETURN(const AlignJob job, MakeAlignJob(work.job));
  ASSIGN_OR_RETURN(const DeviceDescription description, CompleteNamedDevice(work.device));
  ASSIGN_OR_RETURN(Device device, OpenDevice(description));
  record.name = device.queue->name();
  record.computes_in =
      work.party == Party::kOracle ? Precision::kF32 : device.computes.For(job.spec.precision);
  if (work.party != Party::kOracle) {
    RecordingOps* recorder = work.party == Party::kA ? &Record(device, work.limits, directory) : nullptr;
    record.training = TrainForAlignment(device, job, recorder, record.losses);
    if (recorder != nullptr) record.capture = recorder->counts();
    // What cannot be opened or does not fit is no matter of precision.
    const bool began = !record.losses.empty() || record.capture.captured > 0;
    if (!record.training.ok() && !began) return record.training;
  }
  return ReplayAll(device, directory, work.party, record.computes_in);
}

}  // namespace

absl::Status CheckNamedDevices(const std::vector<std::string>& devices) {
  for (const std::string& device : devices) RETURN_IF_ERROR(CompleteNamedDevice(device).status());
  return absl::OkStatus();
}

absl::Status DoAlignWork(const AlignWork& work) {
  const AlignDirectory directory(work.directory);
  DeviceRecord record{.device = work.device};
  record.status = Work(work, directory, record);
  RETURN_IF_ERROR(directory.WriteRecord(work.party, record));
  return record.status;
}

}  // namespace medley
