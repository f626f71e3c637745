#include "kernels/host/ordinary_memory.h"

#include <algorithm>
#include <cstdlib>

#include "absl/strings/str_cat.h"

namespace medley {
namespace {

constexpr int64_t kPageBytes = 4096;

class OrdinaryMemory final : public PinnedMemory {
 public:
  OrdinaryMemory(std::byte* address, size_t size) : bytes_(address, size) {}
  ~OrdinaryMemory() override { std::free(bytes_.data()); }
  absl::Span<std::byte> bytes() override { return bytes_; }

 private:
  const absl::Span<std::byte> bytes_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<PinnedMemory>> AllocateOrdinaryMemory(Bytes size) {
  if (size.value < 0) return absl::InvalidArgumentError(absl::StrCat("cannot allocate ", size.value, " B"));
  // Of an absurd size, which rounding up would wrap, there is none either.
  void* address = nullptr;
  if (size.value <= INT64_MAX - kPageBytes) {
    address = std::aligned_alloc(
        kPageBytes, (std::max<int64_t>(size.value, 1) + kPageBytes - 1) / kPageBytes * kPageBytes);
  }
  if (address == nullptr) {
    return absl::ResourceExhaustedError(absl::StrCat("the host has no ", FormatBytes(size), " left"));
  }
  return std::make_unique<OrdinaryMemory>(static_cast<std::byte*>(address), static_cast<size_t>(size.value));
}

}  // namespace medley
