#pragma once
#include <cstdint>
#include <memory>
#include <new>
#include <utility>

#include "absl/status/status.h"
#include "kernels/host/host_queue.h"
#include "runtime/base/bytes.h"

namespace medley {

// What the queue said when an op needed more memory.
class OutOfScratch final : public std::bad_alloc {
 public:
  explicit OutOfScratch(absl::Status status) : status_(std::move(status)) {}
  const absl::Status& status() const { return status_; }

 private:
  absl::Status status_;
};

// One growing block of memory that ops use one after another, allocated from their queue and so within its
// limit. Contents are undefined between ops. Not thread-safe.
class Scratch {
 public:
  // `queue` outlives it.
  explicit Scratch(HostQueue& queue) : queue_(queue) {}

  // At least `size` bytes, aligned to 64, until the next call. Throws OutOfScratch.
  std::byte* Take(Bytes size);
  float* Floats(int64_t count) {
    return reinterpret_cast<float*>(Take({count * static_cast<int64_t>(sizeof(float))}));
  }

  Bytes size() const { return block_ == nullptr ? Bytes{} : block_->size(); }

 private:
  HostQueue& queue_;
  std::unique_ptr<Buffer> block_;
};

}  // namespace medley
