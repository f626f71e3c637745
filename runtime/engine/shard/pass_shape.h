#pragma once
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "runtime/device/device.h"
#include "runtime/device/rank_group.h"
#include "runtime/ir/model/block_sizes.h"
#include "runtime/ir/model/model_config.h"
#include "runtime/ir/model/row_counts.h"

// What the passes of a micro-batch on one rank are of, and what the ranks of a unit exchange of its rows
// within them.
namespace medley {

// Sizes of one micro-batch, on one rank.
struct PassShape {
  ModelConfig config;  // LocalModel: the rank's own heads and columns
  int64_t batch = 0;   // windows
  int64_t sequence = 0;
  Precision precision = Precision::kF32;
  Dtype activations = Dtype::kF32;  // what they and their gradients are stored as
  LayersMadeAgain made_again;
  HomedBlocks homed;               // whose kept activations are in a buffer of their own
  RankGroup* group = nullptr;      // the ranks that share the blocks; null: this one has all of them
  int ranks = 1;                   // how many share them
  int member = 0;                  // which of them this one is
  bool sequence_parallel = false;  // whether they cut the residual stream by rows
  int64_t first_token = 0;         // of the rank's part of the vocabulary
  int exchange_parts = 1;          // of its rows (Unit::exchange_parts), where ranks share the blocks

  int64_t rows() const { return batch * sequence; }
  int parts() const { return group == nullptr ? 1 : exchange_parts; }
  // Attention is then of all rows at once.
  bool parts_cut_sequences() const { return PartsCutSequences(batch, parts()); }
  // Those of the residual stream and the norms that the rank has.
  RowRange own() const {
    return sequence_parallel ? RowsOfMember(rows(), ranks, member) : RowRange{0, rows()};
  }
  RowCounts row_counts() const { return {rows(), own().size()}; }
};

// The rank's own rows of `x`, [rows, C].
Slice OwnRows(const PassShape& shape, const Slice& x);

// The rows `part` of it; of parts that cut sequences, as if they were one of their own.
PassShape PartOf(const PassShape& shape, const RowRange& part);
// Those of `x`, which has all rows, or if `part` is all of them may have the rank's own ones. Empty: so is the part.
Slice RowsOf(const PassShape& shape, const Slice& x, const RowRange& part);

// Each rank has its own rows of `x`, [rows, C]; afterwards all have all. Nothing to do where they have all
// rows anyway. Errors: of RankGroup.
absl::Status GatherRows(const PassShape& shape, const Slice& x);

// The rank's own rows of `x`, [rows, C], become their sum over the ranks; the others are undefined where it
// does not have them. Errors: of RankGroup.
absl::Status SumRows(const PassShape& shape, const Slice& x);

// All rows of what the rank has its own rows of: `x` itself, or `scratch`, [rows, C], which becomes it.
// Errors: of the ops, of RankGroup.
absl::Status AllRows(Ops& ops, const PassShape& shape, const Slice& x, const Slice& scratch, Slice& all);

}  // namespace medley
