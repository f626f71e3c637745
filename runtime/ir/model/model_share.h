#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "runtime/ir/model/parameters.h"

// How the ranks of a unit share a model's width (tensor parallelism, Shoeybi et al. 2019), as uneven as their
// speeds ask. Every rank holds all of the unit's blocks: of each tensor the part that its heads, its
// feed-forward columns and its vocabulary rows need, and all of the tensors that have none of these. A unit
// of one device is a share like any other: of everything.
namespace medley {

// [first, end).
struct IndexRange {
  int first = 0;
  int end = 0;
  int size() const { return end - first; }
  friend bool operator==(const IndexRange&, const IndexRange&) = default;
};

// What one rank computes with. Query heads go with the key-value head that they attend to. Where ranks of a unit
// share key-value heads, shares are told by query heads instead: of several key-value heads all, or of one some,
// whose keys and values each of these ranks then makes (Shoeybi's Megatron copies them likewise).
struct ModelShare {
  IndexRange key_value_heads, feed_forward, vocabulary;
  IndexRange query_heads = {};  // not empty: key_value_heads is
  friend bool operator==(const ModelShare&, const ModelShare&) = default;
};

// The heads of a share, however it is told.
IndexRange QueryHeadsOf(const ModelConfig& config, const ModelShare& share);
IndexRange KeyValueHeadsOf(const ModelConfig& config, const ModelShare& share);

// Whether a rank may have these query heads: some of one key-value head's, or all of several ones', so that as many
// attend to each that the rank has.
bool AttendAlike(const ModelConfig& config, IndexRange query_heads);

// Whether the `member`-th of a unit has the first key-value head of its share with the one before it, and so its
// keys' and values' parameters.
bool HasKeysOfAnother(const ModelConfig& config, const std::vector<ModelShare>& shares, int member);

// Whether any of a unit's ranks do.
bool ShareKeys(const ModelConfig& config, const std::vector<ModelShare>& shares);

// Whether `degree` ranks can share the model; empty: yes; otherwise the number and what is allowed, to be put
// behind the name of the field.
std::string SharingObjection(const ModelConfig& config, int degree);

// As even as the numbers allow; earlier ranks have the larger shares. More ranks than key-value heads share these.
// `degree` ranks without an objection.
std::vector<ModelShare> EvenShares(const ModelConfig& config, int degree);

// Of more ranks than there are key-value heads, those that share each of these, as even as the numbers allow: [first, end).
std::vector<IndexRange> MembersByKey(const ModelConfig& config, int degree);

ModelShare WholeModel(const ModelConfig& config);

// As many heads, columns and rows, from the first ones on: what passes take depends on nothing else.
ModelShare AtOrigin(const ModelShare& share);

// The model as one rank sees it: `config` with the rank's own numbers of heads, feed-forward columns and
// vocabulary rows. Sizes of tensors, of what passes keep and of scratch follow from it as they do for a whole
// model.
ModelConfig LocalModel(const ModelConfig& config, const ModelShare& share);

// How a tensor that is cut lies in memory: `outer` times the indices of the axis at which it is cut, each of
// `inner` elements.
struct CutShape {
  int64_t outer = 1, indices = 1, inner = 1;
};
CutShape CutShapeOf(const ParameterSpec& tensor);

// What a rank with `share` holds along that axis, ascending: indices of the whole axis, which lie one after
// another in the rank's part.
std::vector<IndexRange> HeldIndices(const ModelConfig& config, const ParameterSpec& tensor,
                                    const ModelShare& share);

// Consecutive elements of a tensor that a rank holds: `count` from `whole` in the tensor are those from
// `held` in its part.
struct HeldRun {
  int64_t whole = 0, held = 0, count = 0;
};

// What a rank with `share` of the model `config` holds of `tensor` (one of SegmentParameters of the whole
// model), ascending.
std::vector<HeldRun> HeldRuns(const ModelConfig& config, const ParameterSpec& tensor,
                              const ModelShare& share);

}  // namespace medley
