#include "kernels/emulated/repeated_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "absl/strings/str_cat.h"
#include "kernels/host/ordinary_memory.h"

namespace medley {
namespace {

// Pages of a file without a name, mapped behind each other again and again.
class RepeatedMemory final : public PinnedMemory {
 public:
  static absl::StatusOr<std::unique_ptr<PinnedMemory>> Create(size_t size) {
    auto memory = std::make_unique<RepeatedMemory>(size);
    absl::Status status = memory->Map();
    if (!status.ok()) return status;
    return memory;
  }

  explicit RepeatedMemory(size_t size) : size_(size) {}
  ~RepeatedMemory() override {
    if (address_ != MAP_FAILED) munmap(address_, size_);
  }
  absl::Span<std::byte> bytes() override { return {static_cast<std::byte*>(address_), size_}; }

 private:
  absl::Status Map() {
    const auto failed = [&](const char* what) {
      return absl::ResourceExhaustedError(absl::StrCat("the host cannot ", what, " ",
                                                       FormatBytes({static_cast<int64_t>(size_)}),
                                                       " of emulated memory (errno ", errno, ")"));
    };
    address_ = mmap(nullptr, size_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (address_ == MAP_FAILED) return failed("reserve addresses for");
    const int file = memfd_create("emulated", MFD_CLOEXEC);
    const size_t real = static_cast<size_t>(kMostRealMemory.value);
    bool mapped = file >= 0 && ftruncate(file, kMostRealMemory.value) == 0;
    for (size_t at = 0; mapped && at < size_; at += real) {
      mapped = mmap(static_cast<std::byte*>(address_) + at, std::min(real, size_ - at),
                    PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) != MAP_FAILED;
    }
    absl::Status status = mapped ? absl::OkStatus() : failed("map");
    if (file >= 0) close(file);
    return status;
  }

  const size_t size_;
  void* address_ = MAP_FAILED;
};

}  // namespace

absl::StatusOr<std::unique_ptr<PinnedMemory>> AllocateRepeatedMemory(Bytes size) {
  if (size <= kMostRealMemory) return AllocateOrdinaryMemory(size);
  return RepeatedMemory::Create(static_cast<size_t>(size.value));
}

}  // namespace medley
