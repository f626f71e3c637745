#include <catch2/catch.hpp>

#include "runtime/device/canonical_ops.h"
#include "tests/conformance/arena.h"

namespace medley {
namespace {

enum class Narrow { kAll, kWhatIsRead, kWhatIsWritten };

template <typename Args>
void CheckNarrow(const CanonicalOp<Args>& canonical, Narrow narrow, Dtype dtype) {
  CompareWithReference([&](Arena& arena) {
    Args args = canonical.args;
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
  });
}

TEST_CASE("ops over bf16 and f16 tensors are right, whichever of their operands are narrow",
          "[conformance]") {
  const Narrow narrow = GENERATE(Narrow::kAll, Narrow::kWhatIsRead, Narrow::kWhatIsWritten);
  const Dtype dtype = GENERATE(Dtype::kBf16, Dtype::kF16);
  CAPTURE(static_cast<int>(narrow), dtype);
#define MEDLEY_CHECK_OP(name)                                            \
  if (OpKind::k##name != OpKind::kCast) {                                \
    for (const CanonicalOp<name##Args>& canonical : Canonical##name()) { \
      CAPTURE(#name, canonical.form);                                    \
      CheckNarrow(canonical, narrow, dtype);                             \
    }                                                                    \
  }
  MEDLEY_EACH_OP(MEDLEY_CHECK_OP)
#undef MEDLEY_CHECK_OP
}

}  // namespace
}  // namespace medley
