#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "kernels/cpu/vector_kernels.h"
#include "runtime/base/bytes.h"
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

// In f32, by oneDNN's sgemm, with the calling OpenMP thread's team (alone inside a parallel region).
// Thread-safe. Throws std::runtime_error if oneDNN fails.
void MultiplyF32(const Product& product);

// Products in either precision for one device. Not thread-safe. Throws dnnl::error or std::bad_alloc.
class Gemm {
 public:
  Gemm(const VectorKernels& kernels, Bf16Matmul bf16);
  ~Gemm();

  // Operands of a kBf16 product are contiguous: a stride is the matrix's stored width, and scale is 1.
  // `b_constness` kParameter: the converted copy of b is kept until ParametersChanged().
  void Multiply(const Product& product, Precision precision, Constness b_constness);

  void ParametersChanged();

  // Bytes of converted operands, kept or reused.
  Bytes kept() const;

 private:
  using Bf16s = std::vector<uint16_t>;
  struct Copy {
    Bf16s values;
    bool current = false;
  };
  struct Primitives;

  // `count` elements from `from`, converted into `to`.
  const uint16_t* Convert(const float* from, int64_t count, Bf16s& to);
  void MultiplyBf16(const Product& product, Constness b_constness);

  const VectorKernels& kernels_;
  const Bf16Matmul bf16_;
  Bf16s a_, b_;
  std::map<std::pair<const float*, int64_t>, Copy> parameters_;
  std::unique_ptr<Primitives> primitives_;
};

}  // namespace medley
