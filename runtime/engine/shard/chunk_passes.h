#pragma once
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "runtime/engine/shard/branch.h"
#include "runtime/engine/shard/parameter_arena.h"
#include "runtime/engine/shard/part_sums.h"
#include "runtime/ir/model/block_sizes.h"
#include "runtime/ir/program/program.h"

namespace medley {

// What is larger than one chunk: buffers at the boundaries, [micro-batch, sequence, hidden] of the largest
// micro-batch, or in sequence parallelism the rank's own rows of it, by kind.
class BoundaryBuffers {
 public:
  void Add(BufferKind kind, const Slice& slice) { slices_[static_cast<int>(kind)].push_back(slice); }
  // As it is stored, or as `dtype`, which takes no more.
  Slice Of(BufferId buffer, std::optional<Dtype> dtype = std::nullopt) const;

 private:
  std::array<std::vector<Slice>, kBufferKinds> slices_;  // none of those of a chunk
};

// A buffer at the boundary, and what its content is stored as.
struct Boundary {
  Boundary(int index = -1, std::optional<Dtype> dtype = std::nullopt) : index(index), dtype(dtype) {}
  int index;
  std::optional<Dtype> dtype;  // none: as the shard stores activations
};

// What a pass is of, and the indices of the buffers that it uses; -1: none.
struct PassBuffers {
  int chunk = 0;                  // of the shard
  int micro_batch_sequences = 0;  // 0: the shard's largest
  int stash = 0;           // of blocks whose activations stay on the device, if the pass needs what such keep
  int leaving_stash = -1;  // of the others, likewise
  int deferred = -1;       // of the two gradients, where each is a pass of its own
  int recomputed = -1;     // of layers' passes, where not all is kept
  int stream_gradient = -1;  // of backward, where others' pieces come between its own
  Boundary input;            // none on the first stage
  Boundary output;           // of forward; none on the last stage
  Boundary input_gradient;   // of backward; none on the first stage
  Boundary output_gradient;  // of backward's first piece; none on the last stage
};

// Slots of one size, one behind the other.
struct SlotMemory {
  Buffer* buffer = nullptr;
  Bytes offset;  // of the first
  Bytes size;    // of each
  int count = 0;
};

// The memory of a shard that the passes of one of its chunks use; it outlives them.
struct ChunkMemory {
  const ParameterArena& arena;
  const BoundaryBuffers& boundaries;
  SlotMemory stash, leaving_stash, deferred, recomputed, stream_gradients;
  Workspace workspace;
  Slice loss_sum;  // f64
};

// The passes of one contiguous range of blocks over micro-batches of one size. Passes of several chunks and
// sizes share a device, and its workspace, one after another.
class ChunkPasses {
 public:
  ChunkPasses(const PassShape& shape, BlockRange blocks, const ChunkMemory& memory);

  int64_t batch() const { return pass_.batch; }
  BlockRange blocks() const { return blocks_; }

  // The micro-batch's token ids, [micro-batch, sequence]; kept until its backward.
  const Slice& TokensOf(const PassBuffers& buffers) const {  // holder of the embedding
    return StashOf(pass_.config.embedding_block(), buffers).tokens;
  }
  const Slice& TargetsOf(const PassBuffers& buffers) const {  // holder of the head
    return StashOf(pass_.config.head_block(), buffers).targets;
  }

  // The holder of the head adds the micro-batch's loss to the step's: here when evaluating, in Backward when
  // training, where the logits are made for the gradients as well. So the head's forward does nothing then,
  // and keeps nothing.
  // Goes through the first blocks first; `piece` is the whole range, or a piece of it that follows the one before.
  absl::Status Forward(Ops& ops, const PassBuffers& buffers, BlockRange piece, Purpose purpose) const;
  // Makes what has not been kept of the layer that is `piece`, for its Backward.
  absl::Status MakeAgain(Ops& ops, const PassBuffers& buffers, BlockRange piece) const;
  // Adds to the gradients, of the loss of each token times `token_weight`. Goes through the last blocks first;
  // `piece` is the whole range, or a piece of it that follows the one before.
  absl::Status Backward(Ops& ops, const PassBuffers& buffers, BlockRange piece, float token_weight) const;
  // The same in two passes, to the same bits: what the stage before waits for, with all that the head has to
  // do, of the whole range; and then, at any time before its buffers are given to others, the rest.
  absl::Status InputGradient(Ops& ops, const PassBuffers& buffers, float token_weight) const;
  absl::Status WeightGradient(Ops& ops, const PassBuffers& buffers, BlockRange piece) const;
  // Once `piece` has all of its gradients, in sequence parallelism: those of its norms are summed over the
  // ranks of the unit.
  absl::Status JoinGradients(BlockRange piece) const;

 private:
  // What blocks keep of one micro-batch: some of the range, of others it is empty. Vectors parallel to branches_.
  struct Stash {
    Slice tokens, embedded;
    std::vector<BranchStash> branches;
    Slice targets;
    Norm head;
  };
  // Rows of a micro-batch that are passed as one while the ranks sum others.
  struct PassedRows {
    RowRange rows;
    Workspace workspace;
    std::vector<Branch> branches;  // parallel to branches_
  };
  // From the gradient of the input to that of the weights.
  struct Deferred {
    std::vector<Slice> inner_gradients;   // parallel to branches_
    std::vector<Slice> stream_gradients;  // by point; empty where it travels
  };

  std::vector<Stash> CarveStashes(BlockRange kept_blocks, const SlotMemory& memory,
                                  const SlotMemory& recomputed) const;
  bool IsHomed(BlockId block) const { return pass_.homed.Of(blocks_).contains(block); }
  // That which has what `block` keeps.
  const Stash& StashOf(BlockId block, const PassBuffers& buffers) const {
    return IsHomed(block) ? leaving_stash_[buffers.leaving_stash] : stash_[buffers.stash];
  }
  BlockId BlockOfBranch(int i) const;
  // Whether the core of the branch `i` is of all parts at once.
  bool JoinsParts(int i) const { return pass_.parts_cut_sequences() && branches_[i].core_joins_rows(); }
  const BranchStash& StashOfBranch(int i, const PassBuffers& buffers) const {
    return StashOf(BlockOfBranch(i), buffers).branches[i];
  }
  void CarveDeferred(const SlotMemory& memory);
  Slice BoundaryOf(BufferKind kind, const Boundary& boundary) const;
  Slice Outer(ParameterArena::Part part, const std::string& name) const;  // empty if `name` is
  Norm FinalNorm(ParameterArena::Part part, const Norm& kept) const;
  // The head's loss of normed rows; with their gradient and the weight's, unless `normed_gradient` is empty.
  absl::Status HeadLoss(Ops& ops, const Stash& stash, const Slice& normed_gradient, float token_weight) const;
  // The same with the ranks that share the vocabulary.
  absl::Status SharedHeadLoss(Ops& ops, const Stash& stash, const Slice& normed_gradient,
                              float token_weight) const;
  absl::Status HeadForward(Ops& ops, const PassBuffers& buffers) const;
  absl::Status HeadBackward(Ops& ops, const PassBuffers& buffers, float token_weight) const;
  absl::Status EmbeddingForward(Ops& ops, const PassBuffers& buffers, PartSums& sums) const;
  absl::Status EmbeddingBackward(Ops& ops, const PassBuffers& buffers) const;
  // What a step of a branch is given of one part, or of all rows.
  struct BranchRows {
    const Branch& branch;
    RowRange rows;
    BranchStash stash;
    Workspace workspace;
  };
  // The three steps of the branch `i`, of one part after another, each once its last sum is there: before(BranchRows),
  // core(BranchRows), and behind(BranchRows, SumThen). Of all rows at once is the core's where parts cut what it joins.
  template <typename Before, typename Core, typename Behind>
  absl::Status InParts(const PassBuffers& buffers, int i, PartSums& sums, const Before& before,
                       const Core& core, const Behind& behind) const;
  // The branch `i` as far as `y`, which is empty where nobody needs it.
  absl::Status MakeBranch(Ops& ops, const PassBuffers& buffers, int i, bool attends, const Slice& y,
                          PartSums& sums) const;
  absl::Status BranchForward(Ops& ops, const PassBuffers& buffers, int i, PartSums& sums) const;
  absl::Status BranchMakeAgain(Ops& ops, const PassBuffers& buffers, int i, bool is_last,
                               PartSums& sums) const;
  absl::Status BranchInputGradient(Ops& ops, const PassBuffers& buffers, int i, const Slice& inner_gradient,
                                   PartSums& sums) const;
  absl::Status BranchBackward(Ops& ops, const PassBuffers& buffers, int i, PartSums& sums) const;
  // The residual stream at a point (StreamPoints), and its gradient.
  Slice StreamAt(int point, const PassBuffers& buffers) const;
  Slice GradientAt(int point, const PassBuffers& buffers) const;
  // Calls of_branch(index) for each of the branches of `piece`, from the last to the first, and says when to
  // go through the head and the embedding.
  template <typename OfHead, typename OfBranch, typename OfEmbedding>
  absl::Status GoBack(BlockRange piece, const OfHead& of_head, const OfBranch& of_branch,
                      const OfEmbedding& of_embedding) const;

  const PassShape pass_;
  const BlockRange blocks_;
  const OuterNames names_;
  const ParameterArena& arena_;
  const BoundaryBuffers& boundaries_;
  const Workspace workspace_;
  const Slice loss_sum_;
  const StreamPoints points_;
  std::vector<Branch> branches_;  // of the layers in the range, of all rows
  std::vector<PassedRows> parts_;
  std::vector<Stash> stash_, leaving_stash_;
  std::vector<Deferred> deferred_;
  std::vector<Slice> stream_gradients_;
};

}  // namespace medley
