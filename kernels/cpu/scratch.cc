#include "kernels/cpu/scratch.h"

namespace medley {

std::byte* Scratch::Take(Bytes size) {
  if (size > this->size()) {
    block_ = nullptr;  // before the larger one: both may not fit
    absl::StatusOr<std::unique_ptr<Buffer>> block = queue_.Allocate(size);
    if (!block.ok()) throw OutOfScratch(block.status());
    block_ = *std::move(block);
  }
  return block_ == nullptr ? nullptr : block_->host_address();
}

}  // namespace medley
