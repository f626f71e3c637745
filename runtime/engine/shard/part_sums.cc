#include "runtime/engine/shard/part_sums.h"

#include "runtime/base/status_macros.h"

namespace medley {

PartSums::PartSums(const PassShape& shape)
    : shape_(shape), rows_(PartRows(shape.batch, shape.sequence, shape.parts())), then_(rows_.size()) {}

Slice PartSums::RowsOf(int part, const Slice& x) const { return medley::RowsOf(shape_, x, rows_[part]); }

absl::Status PartSums::Sum(int part, const Slice& x, std::function<absl::Status()> then) {
  then_[part] = std::move(then);
  if (parts() == 1) return SumRows(shape_, x);
  RETURN_IF_ERROR(EndSum());
  RETURN_IF_ERROR(shape_.group->BeginSum(x));
  under_way_ = part;
  return absl::OkStatus();
}

absl::Status PartSums::EndSum() {
  return std::exchange(under_way_, -1) < 0 ? absl::OkStatus() : shape_.group->EndSum();
}

absl::Status PartSums::Await(int part) {
  if (under_way_ == part) RETURN_IF_ERROR(EndSum());
  const std::function<absl::Status()> then = std::exchange(then_[part], nullptr);
  return then == nullptr ? absl::OkStatus() : then();
}

absl::Status PartSums::AwaitAll() {
  for (int part = 0; part < parts(); ++part) RETURN_IF_ERROR(Await(part));
  return absl::OkStatus();
}

}  // namespace medley
