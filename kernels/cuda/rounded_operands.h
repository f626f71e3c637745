#pragma once
#include <array>
#include <map>
#include <memory>
#include <tuple>

#include "absl/status/statusor.h"
#include "kernels/cuda/cuda_queue.h"

namespace medley {

// Copies of f32 tensors on the device in a narrower type: of parameters, kept until they change; of everything
// else in scratch. `dtype` is bf16 or f16.
class RoundedOperands {
 public:
  // `queue` outlives the copies; `whole` (the device's ops, for its Cast) outlives their use.
  RoundedOperands(CudaQueue& queue, Ops& whole) : queue_(queue), whole_(whole) {}

  // Whether a tensor is of that type and lies where the libraries can use it.
  static bool IsTaken(const Slice& slice, Dtype dtype);

  // The first `elements` of `x`, for ops submitted next: `x` itself if it IsTaken, otherwise a copy. Good until
  // the next call with the same `index`, 0 or more and small. Errors: the queue's; ResourceExhausted: the device
  // has no room; Unimplemented: `x` is of another narrow type.
  absl::StatusOr<Slice> Copy(const Slice& x, Dtype dtype, int64_t elements, size_t index);
  // The same, kept: of a parameter, converted once for all calls until ParametersChanged().
  absl::StatusOr<Slice> CopyOfParameter(const Slice& x, Dtype dtype, int64_t elements);
  // Where an op is to write elements that become `y`: `y` itself if it IsTaken, otherwise scratch, from which
  // Store brings them there.
  absl::StatusOr<Slice> Destination(const Slice& y, Dtype dtype, int64_t elements, size_t index);
  absl::Status Store(const Slice& written, const Slice& y, int64_t elements);
  // Scratch for `elements` elements, under the same rules as Copy's.
  absl::StatusOr<Slice> Scratch(Dtype dtype, int64_t elements, size_t index);

  void ParametersChanged() { ++generation_; }
  void ForgetParameters() { kept_.clear(); }
  Bytes scratch() const;
  Bytes copies() const;

 private:
  using Key = std::tuple<const Buffer*, int64_t, int64_t, Dtype>;  // buffer, offset, elements
  struct Kept {
    std::unique_ptr<Buffer> buffer;
    uint64_t generation = 0;
  };

  CudaQueue& queue_;
  Ops& whole_;
  uint64_t generation_ = 1;
  std::map<Key, Kept> kept_;
  std::array<std::unique_ptr<Buffer>, 4> scratch_;
};

}  // namespace medley
