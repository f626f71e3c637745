#pragma once
#include <array>
#include <vector>

#include "runtime/ir/plan/plan.h"
#include "runtime/ir/program/optimizer_shard.h"
#include "runtime/ir/program/program.h"

namespace medley {

// The window of a layer: which of `windows` it has, of every kind. A layer always has the same one, so that its
// tensors have fixed addresses. `layer`: its place among those that the rank holds.
inline int WindowOf(int layer, int windows) { return layer % windows; }

// What each layer of `unit` has of each kind of window on a rank to which the model is `local`, in elements; of
// moments that is m and v of what `optimizer` (null: all) owns of it.
struct LayerElements {
  int64_t parameters = 0;        // and gradients: of every layer
  std::vector<int64_t> moments;  // of m and v together, by layer
  int64_t most_moments() const;  // of any layer
};
LayerElements LayerElementsOf(const ModelConfig& local, absl::Span<const BlockRange> chunks,
                              const OptimizerShard* optimizer);

// Fetches layers into their windows before instructions of the compute stream use them, and stores what these have
// changed when the window is needed for another layer. A content of a window is what it has of one layer; a fetch
// waits for the last use and the store of the content before, for what is new at the layer's home, and for the fetch
// before it, so that fetches run ahead of the compute stream as far as there are windows: with one there is no
// overlap. Of a layer that lives with its holders a fetch of parameters is a gather of each of its slices, and a store
// of gradients a scatter of each, on the same streams. Instructions are added to the program in an order in which
// each comes after all that it waits for.
class LayerWindows {
 public:
  // Of a unit with window_layers. All outlive it.
  LayerWindows(const Unit& unit, const LayerElements& elements, StepProgram& program);

  // What an instruction does with what it needs.
  enum class Use { kRead, kChange };
  // Makes `instruction`, which is added to the program next, use what a layer has in the window of `kind`: its
  // operand, and what it waits for. Adds what brings it there.
  void Need(Instruction& instruction, BufferKind kind, BlockId layer, Use use);
  // The instruction has been added.
  void Added(int index);
  // Stores what the window has of the layer, if it was changed, and forgets it. Returns the store; -1: there is none.
  int Store(BufferKind kind, BlockId layer);
  // Forgets what the window has of the layer: it is not needed any more.
  void Drop(BufferKind kind, BlockId layer);
  // Likewise, of all layers.
  void DropAll(BufferKind kind);
  // The layer's home has had new values since instruction `index`.
  void HomeChanged(BufferKind kind, BlockId layer, int index);
  // Stores all that was changed.
  void StoreAll();

 private:
  static constexpr int kKinds = 3;
  struct Window {
    BlockId layer = -1;
    bool changed = false;
    int there_since = -1;  // the fetch
    int last_user = -1;    // of the compute stream
    int stored_by = -1;    // what it had before
  };
  static int Index(BufferKind kind) {
    return static_cast<int>(kind) - static_cast<int>(BufferKind::kParameterWindow);
  }
  int PlaceOf(BlockId layer) const;
  Window& WindowWith(BufferKind kind, BlockId layer);
  Operand OperandOf(BufferKind kind, BlockId layer) const;
  // A fetch, store or zeroing, or what these are of a layer that lives with its holders; the index of the last one.
  int Add(InstructionKind of, BufferKind kind, BlockId layer, std::initializer_list<int> waits_for);
  void StoreWindow(BufferKind kind, Window& window);

  const Unit& unit_;
  const LayerElements& elements_;
  StepProgram& program_;
  std::array<std::vector<Window>, kKinds> windows_;
  // By kind and place of the layer: since when the home has values of this step; -1: never.
  std::array<std::vector<int>, kKinds> home_since_;
  std::vector<Window*> used_;  // by the instruction that is to be added
};

}  // namespace medley
