#pragma once
#include <compare>
#include <cstdint>

#include "runtime/device/ops.h"

// A row-major product as cuBLASLt is to see it, and what a choice of its kernel depends on. Pure.
namespace medley {

// cuBLASLt stores matrices by columns. What is row-major [r,c] is column-major [c,r]: so c = a b is asked for
// as c^T = b^T a^T, whose operands lie in memory as they should, and the first of which is our b.
struct ColumnMajorMatmul {
  // A matrix as stored: `rows` x `columns` by columns, each at least `rows` apart.
  struct Matrix {
    int64_t rows = 0, columns = 0;
    Transpose transpose = Transpose::kNo;  // of what is stored, to be multiplied
  };
  Matrix first;   // our b
  Matrix second;  // our a
  Matrix result;  // our c
};
ColumnMajorMatmul ToColumnMajor(const MatmulArgs& args);

// What the operands are read as and multiplied in; sums are always f32.
enum class MatmulArithmetic : uint8_t { kF32, kTf32, kBf16, kF16 };

// Two products with equal keys take the same kernel.
struct MatmulKey {
  int64_t m = 0, n = 0, k = 0;
  Transpose transpose_a = Transpose::kNo, transpose_b = Transpose::kNo;
  MatmulArithmetic arithmetic = MatmulArithmetic::kF32;
  Dtype result = Dtype::kF32;  // of c, and of the pre-activation
  Store store = Store::kOverwrite;
  bool has_bias = false;
  Epilogue epilogue = Epilogue::kNone;
  int64_t a_stride = 0, b_stride = 0, c_stride = 0;  // from a row of what is stored to the next
  // The alignment of each address, in bytes: the largest power of two up to 256 that divides it.
  int a_alignment_bytes = 256, b_alignment_bytes = 256, c_alignment_bytes = 256, bias_alignment_bytes = 256;

  friend auto operator<=>(const MatmulKey&, const MatmulKey&) = default;
};

// The largest power of two up to 256 that divides `address`; 256 for 0.
int AlignmentOf(uint64_t address);

// Whether cuBLASLt's own epilogues do what `args` ask for, so that it is worth asking: their GELU keeps the
// pre-activation with rows of a multiple of 8, takes no bias in the gradient, and approximates tanh more
// coarsely than f32 deserves.
bool CanFuseEpilogue(const MatmulArgs& args);

}  // namespace medley
