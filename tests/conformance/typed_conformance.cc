#include <catch2/catch.hpp>

#include "runtime/device/canonical_ops.h"
#include "tests/conformance/arena.h"

namespace medley {
namespace {

enum class Narrow { kAll, kWhatIsRead, kWhatIsWritten };

template <typename Args>
void CheckNarrow(const CanonicalOp<Args>& canonical, Narrow narrow, Dtype dtype, Precision precision) {
  const auto work = [&](Arena& arena) {
    Args args = canonical.args;
    if constexpr (requires { args.precision; }) args.precision = precision;
    for (const OpSlice& operand : SlicesOf(args)) {
      const bool written = operand.access != Access::kRead;
      if (operand.typed && (narrow == Narrow::kAll || written == (narrow == Narrow::kWhatIsWritten)))
        operand.slice->dtype = dtype;
    }
    const auto memory = PlaceOperands(args, arena.queue());
    REQUIRE(memory.ok());
    arena.Run(args);
    std::vector<Result> results;
    for (const OpSlice& operand : SlicesOf(args)) {
      if (operand.access == Access::kRead || operand.dtype == Dtype::kF64) continue;
      results.push_back({operand.name, arena.Read(*operand.slice), operand.arithmetic, operand.dtype});
    }
    return results;
  };
  CompareWithReference(work, precision);
}

TEST_CASE("ops over bf16 and f16 tensors are right, whichever of their operands are narrow",
          "[conformance]") {
  const Narrow narrow = GENERATE(Narrow::kAll, Narrow::kWhatIsRead, Narrow::kWhatIsWritten);
  const Dtype dtype = GENERATE(Dtype::kBf16, Dtype::kF16);
  // Of the products: kernels of their own may take tensors of the type that they multiply.
  const Precision precision = GENERATE(Precision::kF32, Precision::kBf16, Precision::kF16);
  CAPTURE(static_cast<int>(narrow), dtype, precision);
#define MEDLEY_CHECK_OP(name)                                            \
  if (OpKind::k##name != OpKind::kCast) {                                \
    for (const CanonicalOp<name##Args>& canonical : Canonical##name()) { \
      CAPTURE(#name, canonical.form);                                    \
      CheckNarrow(canonical, narrow, dtype, precision);                  \
    }                                                                    \
  }
  MEDLEY_EACH_OP(MEDLEY_CHECK_OP)
#undef MEDLEY_CHECK_OP
}

}  // namespace
}  // namespace medley
