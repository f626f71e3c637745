#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/cuda/cudnn_library.h"
#include "runtime/base/bytes.h"

namespace medley {

// A descriptor of cuDNN's, owned.
class CudnnDescriptor {
 public:
  CudnnDescriptor() = default;
  CudnnDescriptor(CudnnDescriptor&& other) noexcept { *this = std::move(other); }
  CudnnDescriptor& operator=(CudnnDescriptor&& other) noexcept {
    std::swap(library_, other.library_);
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~CudnnDescriptor() {
    if (handle_ != nullptr) library_->cudnnBackendDestroyDescriptor(handle_);
  }

  static absl::StatusOr<CudnnDescriptor> Create(const CudnnLibrary& library,
                                                cudnnBackendDescriptorType_t type);

  // Sets an attribute to `count` elements at `values`. Errors: as CudnnLibrary::ToStatus.
  absl::Status Set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
                   const void* values);
  // The same for one value of the C++ type that goes with `type`.
  template <typename T>
  absl::Status Set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, const T& value) {
    return Set(name, type, 1, &value);
  }
  absl::Status Set(cudnnBackendAttributeName_t name, const CudnnDescriptor& value) {
    return Set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value.handle_);
  }
  absl::Status Set(cudnnBackendAttributeName_t name, absl::Span<const int64_t> values) {
    return Set(name, CUDNN_TYPE_INT64, static_cast<int64_t>(values.size()), values.data());
  }
  absl::Status Finalize(const char* what);

  cudnnBackendDescriptor_t handle() const { return handle_; }

 private:
  const CudnnLibrary* library_ = nullptr;
  cudnnBackendDescriptor_t handle_ = nullptr;
};

// What a plan is made for: the device of a handle, or a device described by its properties, which needs no
// GPU.
struct CudnnTarget {
  cudnnHandle_t handle = nullptr;
  const CudnnDescriptor* properties = nullptr;  // used where there is no handle
};

// A compiled graph. Not thread-safe.
class CudnnPlan {
 public:
  struct Binding {
    int64_t id;     // of the tensor
    void* address;  // on the device; of a tensor by value, on the host
  };

  Bytes workspace() const { return workspace_; }
  // Submits it to the stream of `handle`. `workspace`: at least workspace() on the device.
  absl::Status Execute(cudnnHandle_t handle, absl::Span<const Binding> bindings, void* workspace) const;

 private:
  friend class CudnnGraph;
  const CudnnLibrary* library_ = nullptr;
  std::vector<CudnnDescriptor> keeps_;  // the plan is last, made of those before it
  Bytes workspace_;
};

// Builds a graph of operations over tensors; the first error sticks and is returned by Compile().
class CudnnGraph {
 public:
  using Dimensions = std::vector<int64_t>;
  // A tensor of this graph, by its place in the order of creation.
  struct Tensor {
    size_t index = 0;
  };
  enum class Storage : uint8_t {
    kDevice,   // bound at execution by its id
    kVirtual,  // never stored
    kByValue,  // one element, read from the host at execution
  };
  struct TensorOptions {
    Dimensions dimensions;
    Dimensions strides;  // empty: row-major
    cudnnDataType_t type = CUDNN_DATA_FLOAT;
    Storage storage = Storage::kVirtual;
    int64_t id = 0;  // 0: the next that nobody named, from 1000 on
  };
  enum class Determinism : uint8_t { kAny, kRequired };

  explicit CudnnGraph(const CudnnLibrary& library) : library_(library) {}

  Tensor AddTensor(const TensorOptions& options);

  // y = mode(x, b); `computing` is the type of the arithmetic.
  void Pointwise(cudnnPointwiseMode_t mode, Tensor x, const Tensor* b, const Tensor* predicate, Tensor y,
                 cudnnDataType_t computing = CUDNN_DATA_FLOAT);
  // y[...] = the index of the element along `axis`.
  void Index(Tensor x, int64_t axis, Tensor y);
  void Matmul(Tensor a, Tensor b, Tensor c);
  void Reduce(cudnnReduceTensorOp_t mode, Tensor x, Tensor y);
  // The same elements, in y's dimensions and strides.
  void Reshape(Tensor x, Tensor y);

  // The first plan that cuDNN's heuristics propose and that compiles for `target`.
  // Unimplemented: none, with cuDNN's words.
  absl::StatusOr<CudnnPlan> Compile(const CudnnTarget& target, Determinism determinism) &&;

 private:
  void Check(absl::Status status);
  CudnnDescriptor Create(cudnnBackendDescriptorType_t type);
  void Finish(CudnnDescriptor operation, const char* what);
  const CudnnDescriptor& Get(Tensor tensor) const { return tensors_[tensor.index]; }
  void AddPointwise(CudnnDescriptor mode, Tensor x, const Tensor* b, const Tensor* predicate, Tensor y);

  const CudnnLibrary& library_;
  absl::Status status_;
  std::vector<CudnnDescriptor> tensors_, modes_, operations_;
  int64_t next_id_ = 1000;
};

}  // namespace medley
