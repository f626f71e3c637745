#pragma once
#include <compare>
#include <optional>
#include <vector>

#include "runtime/ir/plan/plan.h"
#include "runtime/ir/program/layer_windows.h"
#include "runtime/ir/program/program.h"

namespace medley {

// The step program of a rank as it is written: the instructions so far, which visit of a route is at hand, and what
// instructions are made of there. Operands name contents by visit and micro-batch; buffers come later (AssignBuffers).
class StepWriter {
 public:
  // All outlive it.
  StepWriter(const Plan& plan, Rank rank, const TrainingShape& shape, Purpose purpose);
  StepWriter(const StepWriter&) = delete;
  StepWriter& operator=(const StepWriter&) = delete;

  const Plan& plan() const { return plan_; }
  const TrainingShape& shape() const { return shape_; }
  const Unit& unit() const { return unit_; }
  const RankPlace& place() const { return place_; }
  bool trains() const { return purpose_ == Purpose::kTrain; }
  StepProgram& program() { return program_; }
  const StepProgram& program() const { return program_; }

  bool recomputes() const { return unit_.recompute != Recompute::kNone; }
  bool windows_here() const { return unit_.has_windows(); }
  // Whether each layer of a backward is a piece of its own. What the weights' gradients need would have to be made, or
  // fetched, a second time: they come with the inputs' then.
  bool backwards_by_layer() const { return recomputes() || windows_here(); }
  // Whether a layer's gradients have windows.
  bool HasWindow(BlockId block) const { return windows_here() && shape_.model.is_layer(block); }
  // Calls visit(block) for each layer of the unit.
  template <typename Visit>
  void ForEachLayer(const Visit& visit) const {
    for (const BlockRange& range : unit_.chunks) {
      for (BlockId block = range.first; block < range.end; ++block) {
        if (shape_.model.is_layer(block)) visit(block);
      }
    }
  }

  // Gives the program its slices.
  void TakeSlices();
  // The blocks with which slices begin, where passes are cut; descending. They are those of all ranks of the unit, which go
  // through passes together: ranks that share a key-value head have slices that others have not.
  struct SliceBegin {
    BlockId block;
    bool on_peers = false;
    friend auto operator<=>(const SliceBegin&, const SliceBegin&) = default;
  };
  const std::vector<SliceBegin>& slice_begins() const { return slice_begins_; }

  // The visit at hand, an index into the program's.
  void Enter(int visit) { visit_ = visit; }
  // That of `pass`; its micro-batch.
  int Enter(const UnitOp& pass) {
    Enter(pass.visit);
    return pass.micro_batch;
  }
  int visit() const { return visit_; }
  const Visit& at() const { return program_.visits[visit_]; }
  const BlockRange& chunk() const { return unit_.chunks[at().chunk]; }
  int64_t Rows() const { return int64_t{at().micro_batch_sequences} * shape_.sequence; }

  // How many contents there are of each kind; that of micro-batch `i` of a visit.
  int contents() const { return contents_; }
  int ContentOf(int visit, int i) const { return first_content_[visit] + i; }

  // The content of micro-batch `i`; read, unless more is said.
  Operand Use(BufferKind kind, int i) const;
  Operand Fill(BufferKind kind, int i) const;
  Operand Write(BufferKind kind, int i, bool fills) const;
  Operand Read(BufferKind kind, int i, bool releases) const;

  // i: a micro-batch of the visit at hand; -1: it is of none.
  Instruction Make(InstructionKind kind, Stream stream, int i) const;
  Instruction MakeOfSlice(InstructionKind kind, int slice) const;
  // Its index.
  int Add(const Instruction& instruction);

  // Windows of layers, where the unit has them.
  void OpenWindows();
  LayerWindows& windows() { return *windows_; }
  // Adds what uses windows that it has been told to need, or none.
  int AddWithWindows(const Instruction& instruction);
  // Adds a pass's piece to the compute stream, with the windows of its layer.
  int AddPiece(Instruction piece);

  // The messages of a micro-batch that leave the unit, or come to it, at a boundary of the visit at hand, on the stream of
  // their kind. What crosses is cut by rows, into as many parts as the receiving unit has ranks and into as many as the
  // sending one has: each rank receives its own part, whatever lies in one of the sending ranks' parts from that one,
  // so that each byte crosses once. The ranks of a unit hold all rows of what they send, or, in sequence parallelism,
  // those of their own parts; then their buffers begin with these.
  void AddMessages(InstructionKind kind, int i);
  // The ranks of a unit give each other what they have received, if they need more than their own rows.
  void AddGather(InstructionKind kind, BufferKind buffer, int i);
  // What is stored of a content that crosses the boundary to `other`.
  Dtype TypeAcross(UnitId other) const {
    return NarrowerOf(unit_.activations, plan_.units[other].activations);
  }

 private:
  UnitId OtherEnd(BufferKind kind) const;
  int64_t BytesOfRow(BufferKind kind) const;

  const Plan& plan_;
  const TrainingShape& shape_;
  const Purpose purpose_;
  const RankPlace place_;
  const Unit& unit_;
  StepProgram program_;
  std::vector<SliceBegin> slice_begins_;
  int visit_ = 0;
  absl::InlinedVector<int, 1> first_content_;  // of each visit
  int contents_ = 0;
  LayerElements layer_elements_;
  std::optional<LayerWindows> windows_;  // none: the layers live on the device
};

}  // namespace medley
