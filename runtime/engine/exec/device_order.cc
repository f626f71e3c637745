#include "runtime/engine/exec/device_order.h"

#include <algorithm>

#include "runtime/base/status_macros.h"

namespace medley {

DeviceOrder::DeviceOrder(DeviceQueue& queue, size_t most_instructions)
    : queue_(queue), submitted_(most_instructions), arrivals_(most_instructions) {}

absl::Status DeviceOrder::Open() {
  ASSIGN_OR_RETURN(timer_, queue_.OpenTimer(BeginMark() + 1));
  return absl::OkStatus();
}

absl::Status DeviceOrder::Begin(const StepProgram& program) {
  program_ = &program;
  std::fill(arrivals_.begin(), arrivals_.end(), MessageArrival{});
  newest_fetch_ = -1;
  // The device has nothing left to do: the mark is reached as soon as it is submitted.
  RETURN_IF_ERROR(timer_->Set(BeginMark()));
  begun_ = queue_.Record();  // a driver may keep the mark until something is recorded
  return absl::OkStatus();
}

absl::Status DeviceOrder::BeginWork(int index) {
  for (const int other : program_->instructions[index].waits_for) {
    if (other >= 0) RETURN_IF_ERROR(AwaitArrivalOf(other));
  }
  return timer_->Set(2 * index);
}

absl::Status DeviceOrder::EndWork(int index) {
  RETURN_IF_ERROR(timer_->Set(2 * index + 1));
  submitted_[index] = queue_.Record();
  return absl::OkStatus();
}

bool DeviceOrder::UsesNewLayer(const Instruction& instruction) {
  bool is_new = false;
  for (const int other : instruction.waits_for) {
    if (other <= newest_fetch_) continue;  // they come in the order of their first users
    const Instruction& before = program_->instructions[other];
    const bool fetches =
        before.kind == InstructionKind::kFetch || before.kind == InstructionKind::kGatherParameters;
    if (!fetches || before.operands.front().buffer.kind != BufferKind::kParameterWindow) continue;
    newest_fetch_ = other;
    is_new = true;
  }
  return is_new;
}

absl::Status DeviceOrder::AwaitArrivalOf(int index) {
  const MessageArrival& arrival = arrivals_[index];
  return arrival.lane == nullptr ? absl::OkStatus() : queue_.AwaitLane(*arrival.lane, arrival.fence);
}

std::optional<Fence> DeviceOrder::DoneBefore(const Instruction& instruction) const {
  std::optional<Fence> last;
  for (const int other : instruction.waits_for) {
    if (other < 0 || program_->instructions[other].stream != Stream::kCompute) continue;
    if (!last.has_value() || last->value < submitted_[other].value) last = submitted_[other];
  }
  // What the device updated in the step before: layers that live elsewhere are there.
  if (!last.has_value() && instruction.kind == InstructionKind::kGatherParameters &&
      instruction.stream == Stream::kCollective)
    last = begun_;
  return last;
}

absl::Status DeviceOrder::ReadTimes(std::vector<MeasuredTime>& times) {
  for (int i = 0; i < static_cast<int>(times.size()); ++i) {
    if (program_->instructions[i].stream != Stream::kCompute) continue;
    ASSIGN_OR_RETURN(times[i].start_seconds, timer_->Seconds(BeginMark(), 2 * i));
    ASSIGN_OR_RETURN(times[i].end_seconds, timer_->Seconds(BeginMark(), 2 * i + 1));
  }
  return absl::OkStatus();
}

}  // namespace medley
