#include "runtime/engine/align/recording_ops.h"

#include "runtime/base/status_macros.h"

namespace medley {
namespace {

bool LiesAt(const Slice& a, const Slice& b) {
  return a.buffer == b.buffer && a.offset_bytes == b.offset_bytes;
}

bool Shorten(int64_t& elements, int64_t limit) {
  if (elements <= limit) return false;
  elements = limit;
  return true;
}

// Cuts the calls that go over whole arenas; whether it did.
bool Shorten(AnyArgs& args, std::vector<AdamWRange>& ranges, int64_t limit) {
  if (auto* fill = std::get_if<FillArgs>(&args)) return Shorten(fill->elements, limit);
  if (auto* scale = std::get_if<ScaleArgs>(&args)) return Shorten(scale->elements, limit);
  if (auto* norm = std::get_if<SquaredNormArgs>(&args)) return Shorten(norm->elements, limit);
  if (!std::holds_alternative<AdamWArgs>(args)) return false;
  bool shortened = false;
  while (!ranges.empty() && ranges.back().first + ranges.back().elements > limit) {
    AdamWRange& last = ranges.back();
    shortened = true;
    if (last.first < limit) {
      last.elements = limit - last.first;
    } else {
      ranges.pop_back();
    }
  }
  return shortened;
}

Bytes BytesToKeep(const OpSlices& operands) {
  Bytes bytes;
  for (const OpSlice& operand : operands) {
    if (operand.access != Access::kWrite) bytes += operand.elements * SizeOf(operand.dtype);
  }
  return bytes;
}

}  // namespace

void RecordingOps::BeginStep(int64_t step) {
  step_ = step;
  allowance_ += limits_.one_step;
  captured_this_step_.clear();
  position_.clear();
}

std::string RecordingOps::PositionOf(const OpSlices& operands) {
  if (!parameter_at_) return "";
  for (const OpSlice& operand : operands) {
    if (operand.slice->empty()) continue;
    if (std::string name = parameter_at_(*operand.slice); !name.empty()) {
      position_ = name;
      return name;
    }
  }
  return position_;
}

int64_t* RecordingOps::ReasonAgainst(const OpSlices& operands,
                                     const std::set<std::string>& captured_positions,
                                     const std::string& position) {
  for (const OpSlice& operand : operands) {
    if (operand.elements < 0) return &counts_.impossible;
  }
  const Bytes bytes = BytesToKeep(operands);
  if (captured_positions.contains(position)) return &counts_.repeats;
  if (static_cast<int64_t>(captured_positions.size()) >= limits_.calls_of_a_shape) {
    return &counts_.over_calls_of_a_shape;
  }
  if (bytes > limits_.one_call) return &counts_.over_one_call;
  if (counts_.captured_bytes + bytes > allowance_) return &counts_.over_steps;
  return nullptr;
}

absl::Status RecordingOps::Fill(CapturedCall& call, const OpSlices& operands) {
  for (size_t i = 0; i < operands.size(); ++i) {
    const OpSlice& operand = operands[i];
    CapturedTensor tensor{
        .name = operand.name, .dtype = operand.dtype, .access = operand.access, .elements = operand.elements};
    for (size_t j = 0; j < i && tensor.same_as < 0 && !operand.slice->empty(); ++j) {
      const bool same = LiesAt(*operand.slice, *operands[j].slice) &&
                        call.tensors[j].elements == tensor.elements && call.tensors[j].same_as < 0;
      if (same) tensor.same_as = static_cast<int>(j);
    }
    if (tensor.same_as < 0 && operand.access != Access::kWrite && !operand.slice->empty()) {
      tensor.before.resize(tensor.elements * SizeOf(tensor.dtype).value);
      RETURN_IF_ERROR(queue_.Download(*operand.slice->buffer, {operand.slice->offset_bytes},
                                      absl::MakeSpan(tensor.before)));
    }
    call.tensors.push_back(std::move(tensor));
  }
  RETURN_IF_ERROR(queue_.Wait(queue_.Record()));
  // From here on the arguments refer to no memory of the device.
  for (size_t i = 0; i < operands.size(); ++i) {
    if (!operands[i].slice->empty())
      *operands[i].slice = PlacelessSlice(call.tensors[i].elements, call.tensors[i].dtype);
  }
  return absl::OkStatus();
}

absl::Status RecordingOps::Consider(AnyArgs args) {
  CapturedCall call{.place = {.index = counts_.calls++, .step = step_}, .args = std::move(args)};
  if (const auto* adamw = std::get_if<AdamWArgs>(&call.args)) {
    call.ranges.assign(adamw->ranges.begin(), adamw->ranges.end());
  }
  const bool shortened = Shorten(call.args, call.ranges, limits_.elements_of_arena_calls);
  const OpSlices operands = Operands(call);
  call.place.position = PositionOf(operands);
  std::set<std::string>& captured = captured_this_step_[{call.kind(), ShapeOf(call)}];
  if (int64_t* reason = ReasonAgainst(operands, captured, call.place.position)) {
    ++*reason;
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(Annotate(Fill(call, operands), "capturing"));
  if (!CheckCall(call).ok()) {
    ++counts_.impossible;
    return absl::OkStatus();
  }
  captured.insert(call.place.position);
  ++counts_.captured;
  counts_.shortened += shortened;
  counts_.captured_bytes += CapturedBytes(call);
  return sink_(call);
}

}  // namespace medley
