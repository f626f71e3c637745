#pragma once
#include <array>
#include <map>
#include <memory>
#include <tuple>

#include "absl/status/statusor.h"
#include "kernels/cuda/cuda_queue.h"

namespace medley {

// bf16 copies of f32 tensors on the device: of parameters, kept until they change; of everything else in
// scratch.
class Bf16Operands {
 public:
  // `queue` outlives the copies; `whole` (the device's ops, for its Cast) outlives their use.
  Bf16Operands(CudaQueue& queue, Ops& whole) : queue_(queue), whole_(whole) {}

  // Whether a tensor is bf16 and lies where the libraries can use it.
  static bool IsTaken(const Slice& slice);

  // The first `elements` of `x` in bf16, for ops submitted next: `x` itself if it IsTaken, otherwise a copy. Good
  // until the next call with the same `index`, 0 or more and small. Errors: the queue's; ResourceExhausted: the device has no room.
  absl::StatusOr<Slice> Copy(const Slice& x, int64_t elements, size_t index);
  // The same, kept: of a parameter, converted once for all calls until ParametersChanged().
  absl::StatusOr<Slice> CopyOfParameter(const Slice& x, int64_t elements);
  // Where an op is to write `elements` bf16 elements that become `y`: `y` itself if it IsTaken, otherwise
  // scratch, from which Store brings them there.
  absl::StatusOr<Slice> Destination(const Slice& y, int64_t elements, size_t index);
  absl::Status Store(const Slice& written, const Slice& y, int64_t elements);
  // Scratch for `elements` bf16 elements, under the same rules as Copy's.
  absl::StatusOr<Slice> Scratch(int64_t elements, size_t index);

  void ParametersChanged() { ++generation_; }
  Bytes size() const;

 private:
  using Key = std::tuple<const Buffer*, int64_t, int64_t>;  // buffer, offset, elements
  struct Kept {
    std::unique_ptr<Buffer> buffer;
    uint64_t generation = 0;
  };
  absl::Status Round(const Slice& x, int64_t elements, const Slice& y);

  CudaQueue& queue_;
  Ops& whole_;
  uint64_t generation_ = 1;
  std::map<Key, Kept> kept_;
  std::array<std::unique_ptr<Buffer>, 4> scratch_;
};

}  // namespace medley
