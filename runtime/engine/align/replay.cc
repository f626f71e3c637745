#include "runtime/engine/align/replay.h"

#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

constexpr std::byte kPoison{0xff};  // NaN in f32, f64 and bf16

// Lays out every tensor in a buffer of its own, or in the one that it shares.
absl::StatusOr<std::vector<std::unique_ptr<Buffer>>> Place(Device& device,
                                                           const std::vector<CapturedTensor>& tensors,
                                                           const OpSlices& operands) {
  std::vector<std::unique_ptr<Buffer>> buffers(operands.size());
  for (size_t i = 0; i < operands.size(); ++i) {
    const CapturedTensor& tensor = tensors[i];
    const size_t place = tensor.same_as < 0 ? i : tensor.same_as;
    if (place == i) {
      const int64_t bytes = tensor.elements * SizeOf(tensor.dtype).value;
      ASSIGN_OR_RETURN(buffers[i], device.queue->Allocate({bytes}));
      if (tensor.access == Access::kWrite) {
        const std::vector<std::byte> poison(bytes, kPoison);
        RETURN_IF_ERROR(device.queue->Upload(poison, *buffers[i], {0}));
      } else {
        RETURN_IF_ERROR(device.queue->Upload(tensor.before, *buffers[i], {0}));
      }
    }
    *operands[i].slice = {.buffer = buffers[place].get(),
                          .offset_bytes = 0,
                          .elements = tensor.elements,
                          .dtype = tensor.dtype};
  }
  return buffers;
}

absl::Status RunAny(Ops& ops, const AnyArgs& args) {
  return std::visit(
      [&](const auto& some) -> absl::Status {
        if constexpr (std::is_same_v<std::decay_t<decltype(some)>, std::monostate>) {
          return absl::InvalidArgumentError("no op");
        } else {
          return RunOp(ops, some);
        }
      },
      args);
}

}  // namespace

absl::StatusOr<CallResult> Replay(Device& device, const CapturedCall& captured, Precision precision) {
  CapturedCall call{.place = captured.place, .args = captured.args, .ranges = captured.ranges};
  SetPrecision(call, precision);
  const OpSlices operands = Operands(call);
  CallResult result{.index = call.place.index};
  ASSIGN_OR_RETURN(const auto buffers, Place(device, captured.tensors, operands));
  device.ops->ParametersChanged();  // an earlier call's parameters may have lain at the same addresses
  result.status = RunAny(*device.ops, call.args);
  if (!result.status.ok()) return result;
  for (size_t i = 0; i < operands.size(); ++i) {
    if (operands[i].access == Access::kRead) continue;
    CallResult::Output& output = result.outputs.emplace_back();
    output.name = operands[i].name;
    output.dtype = operands[i].dtype;
    output.contents.resize(operands[i].slice->elements * SizeOf(output.dtype).value);
    RETURN_IF_ERROR(device.queue->Download(*operands[i].slice->buffer, {0}, absl::MakeSpan(output.contents)));
  }
  result.status = device.queue->Wait(device.queue->Record());
  if (!result.status.ok()) result.outputs.clear();
  return result;
}

}  // namespace medley
