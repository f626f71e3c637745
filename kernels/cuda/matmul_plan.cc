#include "kernels/cuda/matmul_plan.h"

#include <algorithm>

namespace medley {

ColumnMajorMatmul ToColumnMajor(const MatmulArgs& args) {
  const bool b_is_turned = args.transpose_b == Transpose::kYes,
             a_is_turned = args.transpose_a == Transpose::kYes;
  ColumnMajorMatmul seen;
  seen.first = {b_is_turned ? args.k : args.n, b_is_turned ? args.n : args.k, args.transpose_b};
  seen.second = {a_is_turned ? args.m : args.k, a_is_turned ? args.k : args.m, args.transpose_a};
  seen.result = {args.n, args.m, Transpose::kNo};
  return seen;
}

int AlignmentOf(uint64_t address) {
  constexpr uint64_t kMost = 256;
  return static_cast<int>(address == 0 ? kMost : std::min(kMost, address & (~address + 1)));
}

bool CanFuseEpilogue(const MatmulArgs& args) {
  if (args.epilogue == Epilogue::kNone) return true;
  if (args.precision == Precision::kF32 || args.n % 8 != 0) return false;
  return args.epilogue == Epilogue::kGelu || args.bias.empty();
}

}  // namespace medley
