#include "runtime/engine/shard/pass_shape.h"

#include "runtime/base/status_macros.h"

namespace medley {
namespace {

std::vector<int64_t> ElementEnds(const PassShape& shape) {
  std::vector<int64_t> ends = RowEnds(shape.rows(), shape.ranks);
  for (int64_t& end : ends) end *= shape.config.hidden;
  return ends;
}

}  // namespace

Slice OwnRows(const PassShape& shape, const Slice& x) {
  const RowRange own = shape.own();
  return x.Sub(own.first * shape.config.hidden, own.size() * shape.config.hidden);
}

PassShape PartOf(const PassShape& shape, const RowRange& part) {
  PassShape result = shape;
  if (shape.parts_cut_sequences()) result.sequence = part.size();
  result.batch = part.size() / result.sequence;
  result.exchange_parts = 1;
  return result;
}

Slice RowsOf(const PassShape& shape, const Slice& x, const RowRange& part) {
  if (x.empty() || part.size() == shape.rows()) return x;
  const int64_t columns = x.elements / shape.rows();
  return x.Sub(part.first * columns, part.size() * columns);
}

absl::Status GatherRows(const PassShape& shape, const Slice& x) {
  return shape.sequence_parallel ? shape.group->Gather(x, ElementEnds(shape)) : absl::OkStatus();
}

absl::Status SumRows(const PassShape& shape, const Slice& x) {
  if (shape.group == nullptr) return absl::OkStatus();
  return shape.sequence_parallel ? shape.group->Scatter(x, ElementEnds(shape)) : shape.group->Sum(x);
}

absl::Status AllRows(Ops& ops, const PassShape& shape, const Slice& x, const Slice& scratch, Slice& all) {
  all = x;
  if (!shape.sequence_parallel) return absl::OkStatus();
  all = scratch;
  const Slice own = OwnRows(shape, scratch);
  RETURN_IF_ERROR(ops.Cast({.x = x, .y = own, .elements = own.elements}));
  return GatherRows(shape, scratch);
}

}  // namespace medley
