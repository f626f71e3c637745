#include "runtime/engine/exec/step_exchange.h"

#include <utility>

#include "comm/collective/run_collective.h"
#include "comm/staging/exchange_terms.h"
#include "comm/staging/measure_copies.h"
#include "runtime/base/status_macros.h"
#include "runtime/ir/collective/all_reduce_schedule.h"

namespace medley {
namespace {

CollectiveSchedule ScheduleOf(const GradientSlice& slice, const std::vector<ReductionChoice>& reductions) {
  CollectiveChoice choice;  // an even ring
  for (const ReductionChoice& reduction : reductions) {
    if (reduction.elements == slice.elements && reduction.holders == slice.holders) choice = reduction.choice;
  }
  return AllReduceSchedule(static_cast<int>(slice.holders.size()), slice.elements, choice).value();
}

}  // namespace

StepExchange::StepExchange(const StepProgram& program, std::vector<ReductionChoice> reductions,
                           const CommunicationSettings& settings, ModelShard& shard, Transport& transport)
    : program_(program), settings_(settings), shard_(shard), transport_(transport) {
  for (const GradientSlice& slice : program.slices) {
    schedules_.push_back(ScheduleOf(slice, reductions));
    members_.emplace_back(slice.holders.begin(), slice.holders.end());
  }
}

absl::Status StepExchange::Open(absl::Time deadline) {
  if (open_) return absl::OkStatus();
  ASSIGN_OR_RETURN(const EndMemory memory, MeasureMemory(shard_.queue(), transport_));
  ASSIGN_OR_RETURN(const Handling handling, ChooseHandling(memory, settings_.device_memory));
  ASSIGN_OR_RETURN(const std::vector<StagingTerms> terms,
                   ExchangeTerms(transport_, TermsOf(handling, memory.copies), deadline));
  for (const Instruction& instruction : program_.instructions) {
    std::unique_ptr<DeviceStream>& stream = streams_[static_cast<int>(instruction.stream)];
    if (instruction.peer < 0 || stream != nullptr) continue;
    ASSIGN_OR_RETURN(stream, DeviceStream::Open(shard_.queue(), transport_, terms));
  }
  if (!memory.host_reaches && !program_.slices.empty()) {
    ASSIGN_OR_RETURN(gradient_lane_, shard_.queue().OpenCopyLane());
  }
  for (const GradientSlice& slice : program_.slices) {
    const Slice gradients =
        shard_.arena().Segments(ParameterArena::Part::kGradient, slice.first_segment, slice.end_segment);
    ASSIGN_OR_RETURN(PinnedMirror mirror,
                     PinnedMirror::Create(shard_.queue(), gradient_lane_.get(), gradients));
    gradients_.push_back(std::move(mirror));
  }
  open_ = true;
  return absl::OkStatus();
}

absl::StatusOr<MessageArrival> StepExchange::Transfer(const Instruction& instruction,
                                                      std::optional<Fence> after,
                                                      const std::function<void()>& when_ready,
                                                      absl::Time deadline) {
  const BufferId& buffer = instruction.operands.front().buffer;
  const Slice slice = shard_.BoundaryOf(buffer);
  const bool is_gradient =
      buffer.kind == BufferKind::kInputGradient || buffer.kind == BufferKind::kOutputGradient;
  // In order under one tag, so that a sequence may come again after sixteen thousand micro-batches.
  const DeviceMessage message{
      .peer = instruction.peer,
      .tag = {.kind = is_gradient ? MessageTag::Kind::kGradient : MessageTag::Kind::kActivation,
              .sequence = static_cast<uint32_t>(instruction.micro_batch) % kMaximumSequences},
      .span = {slice.buffer, slice.offset_bytes + instruction.offset.value, instruction.bytes.value},
      .after = after,
      .when_ready = when_ready};
  DeviceStream& stream = *streams_[static_cast<int>(instruction.stream)];
  if (IsReceive(instruction.kind)) return stream.ReceiveBehind(message, deadline);
  RETURN_IF_ERROR(stream.Send(message, deadline));
  return MessageArrival{};
}

absl::StatusOr<MessageArrival> StepExchange::Reduce(int slice, Fence after,
                                                    const std::function<void()>& when_ready,
                                                    absl::Time deadline) {
  const GradientSlice& reduced = program_.slices[slice];
  PinnedMirror& mirror = gradients_[slice];
  RETURN_IF_ERROR(mirror.FromDevice(after));
  if (when_ready) when_ready();
  const absl::Span<float> values(reinterpret_cast<float*>(mirror.bytes().data()), reduced.elements);
  const WireType wire = settings_.gradient_wire == Precision::kBf16 ? WireType::kBf16 : WireType::kF32;
  // Units sum the slices that they share in one order, so that two of one channel cannot be taken for each
  // other.
  const uint16_t channel = static_cast<uint16_t>(reduced.first_segment % kMaximumChannels);
  RETURN_IF_ERROR(
      RunCollective(transport_, schedules_[slice], members_[slice], channel, values, wire, deadline));
  ASSIGN_OR_RETURN(const std::optional<Fence> there, mirror.ToDevice());
  return there.has_value() ? MessageArrival{gradient_lane_.get(), *there} : MessageArrival{};
}

}  // namespace medley
