#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "comm/staging/device_message.h"
#include "runtime/device/device_queue.h"
#include "runtime/device/queue_timer.h"
#include "runtime/engine/exec/step_streams.h"
#include "runtime/ir/program/program.h"

namespace medley {

// How what a device computes in a step, and what goes on beside it, come one after the other.
//
// Instructions of the compute stream are submitted to one queue, and what they wait for in it is before them there. Each leaves a
// fence behind its work: other streams wait for that on the host, which alone knows when the network, or a copy, may begin.
// What these bring to the device arrives on lanes, for which the device waits by itself. So the host
// that submits waits for nothing. Times of what was computed are the device's own, between two marks an instruction.
//
// One thread submits; Arrived and DoneBefore are of any stream, as the program orders them.
class DeviceOrder {
 public:
  // For programs of so many instructions at most. `queue` outlives it.
  DeviceOrder(DeviceQueue& queue, size_t most_instructions);

  // Before the first program.
  absl::Status Open();
  // A run of `program`, which lives as long. The device has nothing left to do.
  absl::Status Begin(const StepProgram& program);

  // What is submitted from now on is the work of instruction `index`, behind all that it waits for.
  absl::Status BeginWork(int index);
  // All of it has been submitted.
  absl::Status EndWork(int index);
  // Whether the instruction uses a layer's parameters that were fetched, or gathered, since the last time that it was so of
  // another one. Of instructions in the order of the compute stream.
  bool UsesNewLayer(const Instruction& instruction);

  // A receive, or a collective of a slice, brings what it has to the device.
  void Arrived(int index, const MessageArrival& arrival) { arrivals_[index] = arrival; }
  // What is submitted from now on waits for that.
  absl::Status AwaitArrivalOf(int index);
  // When the device has done what `instruction` waits for; empty: it waits for nothing that the device does.
  std::optional<Fence> DoneBefore(const Instruction& instruction) const;

  // Blocks until the device has done what was submitted.
  absl::Status Finish() { return queue_.Wait(queue_.Record()); }
  // The times of what the device did, once it has finished.
  absl::Status ReadTimes(std::vector<MeasuredTime>& times);

 private:
  int BeginMark() const { return 2 * static_cast<int>(submitted_.size()); }

  DeviceQueue& queue_;
  const StepProgram* program_ = nullptr;  // at hand
  std::unique_ptr<QueueTimer> timer_;     // of two marks an instruction, and one for the beginning
  Fence begun_;                           // of the program at hand
  std::vector<Fence> submitted_;          // by instruction, of those for the device: after its work
  std::vector<MessageArrival> arrivals_;  // by instruction, of receives and collectives of slices
  int newest_fetch_ = -1;                 // of parameters, that the compute stream has come to
};

}  // namespace medley
