#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <tuple>

#include "kernels/cpu/scratch.h"
#include "kernels/cpu/vector_kernels.h"
#include "runtime/base/bytes.h"
#include "runtime/base/dtype.h"
#include "runtime/device/ops.h"

namespace medley {

// How Precision::kBf16 is computed: with bf16 instructions, or in f32 as if it were kF32.
enum class Bf16Matmul { kNative, kAsF32 };

// A matrix in row-major memory, `stride` elements from row to row; with Transpose::kYes it is read as its
// transpose.
struct Matrix {
  const float* data = nullptr;
  int64_t stride = 0;
  Transpose transpose = Transpose::kNo;
};

// c[m,n] = scale * a[m,k] b[k,n], or += with Store::kAdd; c's rows are `c_stride` apart. k = 0 gives zeros.
struct Product {
  int64_t m = 0, n = 0, k = 0;
  Matrix a, b;
  float* c = nullptr;
  int64_t c_stride = 0;
  float scale = 1.0f;
  medley::Store store = medley::Store::kOverwrite;
};

// An operand or a result of TypedProduct, of f32 or bf16.
struct TypedMatrix {
  void* data = nullptr;
  Dtype dtype = Dtype::kF32;
  Transpose transpose = Transpose::kNo;
  int64_t stride = 0;  // elements from row to row as stored; 0: contiguous, as all must be but a bf16 operand
};

// c[m,n] = a[m,k] b[k,n] (+ bias[n] on every row), or += with Store::kAdd. The sums are f32, rounded once.
struct TypedProduct {
  int64_t m = 0, n = 0, k = 0;
  TypedMatrix a, b, c;
  const float* bias = nullptr;
  medley::Store store = medley::Store::kOverwrite;
};

// In f32, by oneDNN's sgemm, with the calling OpenMP thread's team (alone inside a parallel region).
// Thread-safe. Throws std::runtime_error if oneDNN fails.
void MultiplyF32(const Product& product);

// Products with bf16 operands for one device. Not thread-safe. Throws dnnl::error, std::bad_alloc or
// OutOfScratch.
class Gemm {
 public:
  // What it keeps is allocated from `queue`, which outlives it, as `kernels` do.
  Gemm(HostQueue& queue, const VectorKernels& kernels, Bf16Matmul bf16);
  ~Gemm();

  // Whether products of `precision` multiply bf16, and so take matrices of either type.
  bool MultipliesBf16(Precision precision) const {
    return precision == Precision::kBf16 && bf16_ == Bf16Matmul::kNative;
  }

  // With bf16 operands where MultipliesBf16; those that are f32 are rounded first. `b_constness` kParameter:
  // b's rounded copy is kept until ParametersChanged(). Elsewhere, and for k = 0, all matrices are f32.
  void Multiply(const TypedProduct& product, Precision precision, Constness b_constness);

  // `rows` rows of `columns` f32, rounded to bf16 where they lie: each begins where it began. Without other
  // memory, which for a head's logits would be half as much again.
  TypedMatrix RoundInPlace(float* values, int64_t rows, int64_t columns);

  void ParametersChanged();
  void ForgetParameters() { parameters_.clear(); }

  // Of converted operands that are used once, and of kept copies.
  Bytes scratch() const { return a_.size() + b_.size(); }
  Bytes copies() const;

 private:
  struct Copy {
    std::unique_ptr<Buffer> values;
    bool current = false;
  };
  struct Primitives;

  // `count` elements from `from`, converted into `to`.
  const void* Convert(const float* from, int64_t count, void* to);
  const void* CopyOfParameter(const float* from, int64_t count);

  void MultiplyBf16(const TypedProduct& product, Constness b_constness);
  // In f32, c is the product or is added to.
  void BeginAsBias(const TypedProduct& product);

  HostQueue& queue_;
  const VectorKernels& kernels_;
  const Bf16Matmul bf16_;
  Scratch a_, b_;
  std::map<std::pair<const float*, int64_t>, Copy> parameters_;
  std::unique_ptr<Primitives> primitives_;
};

}  // namespace medley
