#include "runtime/ir/program/layer_windows.h"

#include <algorithm>
#include <utility>

#include "runtime/ir/model/parameters.h"

namespace medley {

int64_t LayerElements::most_moments() const {
  return moments.empty() ? 0 : *std::max_element(moments.begin(), moments.end());
}

LayerElements LayerElementsOf(const ModelConfig& local, absl::Span<const BlockRange> chunks,
                              const OptimizerShard* optimizer) {
  LayerElements result;
  int64_t offset = 0;  // in the rank's arena
  for (const SegmentId segment : SegmentsOf(local, chunks)) {
    const int64_t elements = SegmentElements(local, segment);
    if (IsLayer(local, segment)) {
      result.parameters = elements;
      int64_t owned = elements;
      if (optimizer != nullptr) {
        owned = 0;
        for (const OwnedRun& run : OwnedWithin(optimizer->owned, offset, offset + elements))
          owned += run.elements;
      }
      result.moments.push_back(2 * owned);
    }
    offset += elements;
  }
  return result;
}

LayerWindows::LayerWindows(const Unit& unit, const LayerElements& elements, StepProgram& program)
    : unit_(unit), elements_(elements), program_(program) {
  for (int kind = 0; kind < kKinds; ++kind) {
    windows_[kind].resize(unit.window_layers);
    home_since_[kind].assign(elements.moments.size(), -1);
  }
}

int LayerWindows::PlaceOf(BlockId layer) const {
  int place = 0;
  for (const BlockRange& chunk : unit_.chunks) {
    const BlockId first = std::max<BlockId>(chunk.first, BlockOfLayer(0));  // of the embedding none
    if (layer < chunk.end) return place + (layer - first);
    place += chunk.end - first;
  }
  return place;
}

LayerWindows::Window& LayerWindows::WindowWith(BufferKind kind, BlockId layer) {
  return windows_[Index(kind)][WindowOf(PlaceOf(layer), unit_.window_layers)];
}

Operand LayerWindows::OperandOf(BufferKind kind, BlockId layer) const {
  return {.buffer = {kind, WindowOf(PlaceOf(layer), unit_.window_layers)}};
}

int LayerWindows::Add(InstructionKind of, BufferKind kind, BlockId layer,
                      std::initializer_list<int> waits_for) {
  Instruction instruction{.kind = of,
                          .stream = of == InstructionKind::kFetch   ? Stream::kFetch
                                    : of == InstructionKind::kStore ? Stream::kStore
                                                                    : Stream::kCompute,
                          .blocks = {layer, layer + 1}};
  instruction.operands[0] = OperandOf(kind, layer);
  instruction.operands[0].fills = instruction.operands[0].writes = of != InstructionKind::kStore;
  for (const int other : waits_for) {
    if (other >= 0 && program_.instructions[other].stream != instruction.stream) instruction.WaitFor(other);
  }
  const bool on_peers = unit_.lives_on_peers() && instruction.stream != Stream::kCompute;
  const auto [first_slice, end_slice] = on_peers ? SlicesOfLayer(program_.slices, layer) : std::pair(0, 1);
  for (int slice = first_slice; slice < end_slice; ++slice) {
    if (on_peers) {
      instruction.kind = of == InstructionKind::kFetch ? InstructionKind::kGatherParameters
                                                       : InstructionKind::kScatterGradients;
      instruction.slice = slice;
      instruction.bytes = {SizeOf(Dtype::kF32).value * program_.slices[slice].elements};
    } else if (of != InstructionKind::kZeroGradients) {
      const int64_t elements =
          kind == BufferKind::kMomentWindow ? elements_.moments[PlaceOf(layer)] : elements_.parameters;
      instruction.bytes = {SizeOf(Dtype::kF32).value * elements};
    }
    program_.instructions.push_back(instruction);
    instruction.operands[0].fills = false;
  }
  return static_cast<int>(program_.instructions.size()) - 1;
}

void LayerWindows::StoreWindow(BufferKind kind, Window& window) {
  window.stored_by = Add(InstructionKind::kStore, kind, window.layer, {window.last_user});
  window.changed = false;
  home_since_[Index(kind)][PlaceOf(window.layer)] = window.stored_by;
}

void LayerWindows::Need(Instruction& instruction, BufferKind kind, BlockId layer, Use use) {
  Window& window = WindowWith(kind, layer);
  if (window.layer != layer) {
    if (window.changed) StoreWindow(kind, window);
    const int home_since = home_since_[Index(kind)][PlaceOf(layer)];
    const bool begins = kind == BufferKind::kGradientWindow && home_since < 0;
    const int filled = Add(begins ? InstructionKind::kZeroGradients : InstructionKind::kFetch, kind, layer,
                           {window.stored_by, window.last_user, home_since});
    window = {.layer = layer,
              .changed = begins,
              .there_since = begins ? -1 : filled,
              .last_user = begins ? filled : window.last_user,
              .stored_by = window.stored_by};
  }
  if (use == Use::kChange) window.changed = true;
  instruction.WaitFor(window.there_since);
  Operand operand = OperandOf(kind, layer);
  operand.writes = use == Use::kChange;
  instruction.Add(operand);
  used_.push_back(&window);
}

void LayerWindows::Added(int index) {
  for (Window* const window : used_) window->last_user = index;
  used_.clear();
}

int LayerWindows::Store(BufferKind kind, BlockId layer) {
  Window& window = WindowWith(kind, layer);
  if (window.layer != layer) return -1;
  const bool changed = window.changed;
  if (changed) StoreWindow(kind, window);
  window.layer = -1;
  return changed ? window.stored_by : -1;
}

void LayerWindows::Drop(BufferKind kind, BlockId layer) {
  Window& window = WindowWith(kind, layer);
  if (window.layer != layer) return;
  window.layer = -1;
  window.changed = false;
}

void LayerWindows::DropAll(BufferKind kind) {
  for (Window& window : windows_[Index(kind)])
    window = {.last_user = window.last_user, .stored_by = window.stored_by};
}

void LayerWindows::HomeChanged(BufferKind kind, BlockId layer, int index) {
  home_since_[Index(kind)][PlaceOf(layer)] = index;
}

void LayerWindows::StoreAll() {
  for (int kind = 0; kind < kKinds; ++kind) {
    for (Window& window : windows_[kind]) {
      if (window.layer < 0 || !window.changed) continue;
      StoreWindow(static_cast<BufferKind>(static_cast<int>(BufferKind::kParameterWindow) + kind), window);
    }
  }
}

}  // namespace medley
