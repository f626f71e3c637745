#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"
#include "runtime/base/bytes.h"
#include "runtime/ir/model/block_sizes.h"
#include "runtime/ir/model/row_counts.h"
#include "runtime/ir/plan/plan.h"
#include "runtime/ir/program/gradient_slices.h"

// What one device does in one step, as data. The worker's executor runs it; the coordinator's predictor
// simulates the very same program.
namespace medley {

enum class InstructionKind : uint8_t {
  kReceiveActivation,  // input of a forward, from the previous stage of the route
  kGatherActivation,   // the ranks of the unit give each other the rows that each has received
  kForward,            // of a chunk, for one micro-batch
  kSendActivation,
  kReceiveGradient,  // gradient of a chunk's output, from the next stage
  kGatherGradient,   // as kGatherActivation
  // The gradients of some of a chunk's blocks, from the last to the first: of their input and of their
  // weights, or one of them, where the schedule puts off the weights'. The last that adds to the weights' of
  // a chunk comes in pieces.
  kBackward,
  kInputGradient,
  kWeightGradient,
  kRecompute,  // what a layer has not kept, before its backward
  // The ranks of a unit in sequence parallelism sum the gradients of their norms, of which each has those of
  // its own rows, behind the last gradients of some of a chunk's blocks.
  kJoinGradients,
  kSendGradient,
  kReduceGradients,   // sums a slice over its holders (all-reduce)
  kScatterGradients,  // the same for the owners alone, each of its range (reduce-scatter)
  kNormGradients,  // squared norm of what the rank answers for of the segments on the device, or of a layer
  kReduceScalars,  // norms and losses, over all ranks
  // Clips and steps the optimizer on what the rank owns of what lives on the device, and zeroes the gradients;
  // or of a layer that lives on the host.
  kUpdateParameters,
  // The parameters on the device become what the update would make of them if no norm were to be clipped; those that
  // they were are kept for it.
  kAdvanceParameters,
  kGatherParameters,  // the owners of a slice give it to all of its holders (all-gather)
  // Of a unit whose layers live in host memory: what the operand says of one layer. Of one whose activations do: what
  // a micro-batch keeps of a chunk's first blocks, or of all of them. (Of one whose layers live with
  // their holders parameters come by kGatherParameters, and gradients go by kScatterGradients, with such an operand.)
  kFetch,          // to the device
  kStore,          // to its home
  kZeroGradients,  // in the layer's window, before the first micro-batch adds to them
};

// Instructions of one stream run one after another; streams run side by side.
enum class Stream : uint8_t {
  kCompute,
  kReceiveActivation,
  kSendActivation,
  kReceiveGradient,
  kSendGradient,
  kCollective,
  kFetch,
  kStore
};
constexpr int kStreams = 8;

// What the passes and messages of a step work on. A buffer holds one content after another: what belongs to
// one micro-batch.
enum class BufferKind : uint8_t {
  kStash,         // activations kept from forward to backward on the device; each chunk has its own
  kLeavingStash,  // those of the blocks whose kept activations may go to host memory meanwhile; likewise
  kDeferred,      // what the weights' gradient needs of the input's, where it comes later; likewise
  kStashHome,     // in host memory: what a homed stash had, until another one gets it; likewise
  kRecomputed,    // what is not kept of a layer, while its passes need it
  // The gradient of the residual stream between pieces of a backward, where other micro-batches' come between.
  kStreamGradient,
  // Of layers that live elsewhere than on the device; each has its place (WindowOf).
  kParameterWindow,
  kGradientWindow,
  kMomentWindow,
  kInput,           // of a chunk, from the stage before
  kOutput,          // for the next stage
  kInputGradient,   // for the stage before
  kOutputGradient,  // from the next stage
};
constexpr int kBufferKinds = 13;
// Whether every chunk has buffers of its own of this kind: they stay on the rank.
inline bool IsOfChunk(BufferKind kind) { return kind <= BufferKind::kStashHome; }
// Whether its content crosses to another unit, or comes from there.
inline bool Travels(BufferKind kind) { return kind >= BufferKind::kInput; }
// Whether it is a layer's window rather than a micro-batch's.
inline bool IsWindow(BufferKind kind) {
  return kind >= BufferKind::kParameterWindow && kind <= BufferKind::kMomentWindow;
}

struct BufferId {
  BufferKind kind = BufferKind::kStash;
  int index = -1;  // below the program's count of the kind (and chunk, if IsOfChunk); -1: none
  int chunk = 0;   // if IsOfChunk
  friend bool operator==(const BufferId&, const BufferId&) = default;
};

// How an instruction uses a buffer.
struct Operand {
  BufferId buffer;
  bool fills = false;         // the first use of a content: what was there before is gone
  bool writes = false;        // changes it; so does who fills it
  bool releases = false;      // the last use of a content
  Dtype dtype = Dtype::kF32;  // of the content, where it travels
};

struct Instruction {
  InstructionKind kind;
  Stream stream;
  int visit = 0;  // index into StepProgram::visits, of passes and of what they exchange
  int chunk = 0;  // of the unit: the visit's
  // Of passes, and of kJoinGradients; of what fetches, stores or zeroes a layer's window, and of a norm or an update of
  // a layer that lives on the host, that layer; of a fetch or a store of activations, those that have kept them.
  BlockRange blocks;
  MicroBatchId micro_batch;
  // The boundary of a send or receive, named by the stage of the route whose output crosses it; the same at
  // both ends.
  StageId boundary;
  Rank peer;       // at the other end, of sends and receives
  int slice = -1;  // index into StepProgram::slices, of what IsOfSlice
  // Those with an index; a send or receive has the one that it carries, and has it first.
  std::array<Operand, 8> operands;
  // On the wire, of sends and receives; of the slice, of what IsOfSlice; of a rank's share, of
  // kReduceScalars; of all norms, of kJoinGradients; copied, of kFetch and kStore.
  Bytes bytes;
  Bytes offset;            // in its operand, of sends and receives
  bool next_step = false;  // it is made ahead for the step after this one, whose micro-batch it names
  // Instructions, beside the previous one of the stream; -1: none.
  std::array<int, 5> waits_for = {-1, -1, -1, -1, -1};

  // The one that it uses of `buffer_kind`; one without an index: none.
  Operand OperandOf(BufferKind buffer_kind) const;
  // Adds one; there is room.
  void Add(const Operand& operand);
  // Adds `other` to what it waits for, unless it does already, or `other` is -1; there is room.
  void WaitFor(int other);
};

// How many buffers of each kind a rank has, and of which type.
struct BufferCounts {
  absl::InlinedVector<int, 1> stash = {0};  // of each chunk; 0 if activations of all its blocks may go home
  absl::InlinedVector<int, 1> leaving_stash = {0};  // of each chunk; 0 if those of none may
  absl::InlinedVector<int, 1> deferred = {0};       // of each chunk; 0 if no gradient is put off
  absl::InlinedVector<int, 1> stash_home = {0};     // of each chunk; 0 if activations stay on the device
  int recomputed = 0;                               // 0 if it keeps everything
  int stream_gradient = 0;                          // 0 if backwards of micro-batches do not alternate
  int input = 0;                                    // 0 if it has first stages only
  int output = 0;                                   // 0 if it has last stages only
  int input_gradient = 0;
  int output_gradient = 0;
  // Of layers: of each kind that `home` asks for. 0: all live on the device.
  int windows = 0;
  LayersHome home = LayersHome::kHost;  // the unit's
  // What all of them are large enough for; what travels may be stored in a narrower type. The narrowest of
  // all.
  Dtype activations = Dtype::kF32, narrowest = Dtype::kF32;
  Recompute recompute = Recompute::kNone;  // the unit's: how large stash and recomputed are
  int recomputed_layers = 0;               // the unit's: of how many; 0: of all
  ActivationsHome activations_home = ActivationsHome::kDevice;  // the unit's: how large the stashes are
  int homed_layers = 0;                                         // the unit's: of how many; 0: of all
  int ranks = 1;                   // of the unit; what they exchange within passes needs scratch
  int member = 0;                  // the rank's place among them
  bool sequence_parallel = false;  // the unit's: its ranks have their own rows (OwnRows)
  int exchange_parts = 1;          // the unit's: parts of a micro-batch; they take no memory
  bool goes_ahead = false;  // of the norms: parameters are kept as they were before (kAdvanceParameters)

  int of(BufferKind kind, int chunk = 0) const;
  int& of(BufferKind kind, int chunk = 0);
};

// The rows that a rank with such buffers has of a micro-batch of `rows`: of what is cut by rows its own ones,
// RowsOfMember, in sequence parallelism; all of them otherwise.
RowRange OwnRows(const BufferCounts& buffers, int64_t rows);
RowCounts RowCountsOf(const BufferCounts& buffers, int64_t rows);
// The blocks of a unit with such buffers and these chunks whose activations kLeavingStash has.
HomedBlocks HomedBlocksOf(const BufferCounts& buffers, const ModelConfig& config,
                          absl::Span<const BlockRange> chunks);

enum class Purpose : uint8_t { kTrain, kEvaluate };  // kEvaluate: forwards and the loss only

// How a training step follows the one before, and is followed: as here, but for the first and the last step, what
// validation or a checkpoint follows, and what was made ahead in vain.
struct StepEnds {
  // In a plan with post-validation (going_ahead.h):
  bool begins_ahead = true;  // its first forwards were made in the step before
  bool goes_ahead = true;    // it makes those of the next step
  // In a plan that shards the optimizer's state: what its owners updated in the step before goes to all holders first.
  bool gathers = true;
};

struct StepProgram {
  Rank rank;
  UnitId unit;
  Visits visits;                          // how routes pass the unit
  std::vector<Instruction> instructions;  // those of one stream stand in its order
  std::vector<GradientSlice> slices;
  BufferCounts buffers;
};

// Compiles what `rank` does in one step. Pure. What owners update in a step is gathered in the next one, where forwards
// need not wait for all of it: it begins with kGatherParameters in the order of use, and the first forward of a chunk
// comes in pieces. `plan` must be valid (runtime/ir/plan/check_plan.h). Programs of one
// purpose that differ in their ends alone have the same buffers.
StepProgram CompileStep(const Plan& plan, Rank rank, const TrainingShape& shape, Purpose purpose,
                        StepEnds ends = {});

// Of a training step's, which is followed by no other: what its owners have updated goes to all holders, and that is all.
StepProgram GathersAlone(const StepProgram& step);

bool IsReceive(InstructionKind kind);
bool IsGather(InstructionKind kind);
// A collective of a slice's holders: of its gradients, or its parameters.
bool IsOfSlice(InstructionKind kind);
bool IsGradient(InstructionKind kind);  // a pass that makes gradients, of either kind or both
bool IsPass(InstructionKind kind);      // a forward, a part of one again, or a gradient
// What the ranks of a unit do together, and may wait for each other in.
bool IsOfUnit(InstructionKind kind);
std::string NameOf(InstructionKind kind);  // "forward", "send activation", ...
// The same, or "fetch parameters of layer 3", "fetch activations".
std::string NameOf(const Instruction& instruction);

}  // namespace medley
