#include "kernels/host/ordinary_memory.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/host_memory.h"

namespace medley {
namespace {

class OrdinaryMemory final : public PinnedMemory {
 public:
  OrdinaryMemory(HostMemory memory, size_t size) : memory_(std::move(memory)), size_(size) {}
  absl::Span<std::byte> bytes() override { return {memory_.get(), size_}; }

 private:
  const HostMemory memory_;
  const size_t size_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<PinnedMemory>> AllocateOrdinaryMemory(Bytes size) {
  if (size.value < 0) return absl::InvalidArgumentError(absl::StrCat("cannot allocate ", size.value, " B"));
  HostMemory memory = AllocateHostMemory(size.value);
  if (memory == nullptr) {
    return absl::ResourceExhaustedError(absl::StrCat("the host has no ", FormatBytes(size), " left"));
  }
  return std::make_unique<OrdinaryMemory>(std::move(memory), static_cast<size_t>(size.value));
}

}  // namespace medley
