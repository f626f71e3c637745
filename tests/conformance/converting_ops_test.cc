#include "runtime/device/converting_ops.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "kernels/host/host_queue.h"
#include "kernels/host/host_slice.h"
#include "kernels/reference/reference_ops.h"
#include "runtime/base/bf16.h"
#include "runtime/device/canonical_ops.h"

namespace medley {
namespace {

constexpr Bytes kWhole{std::numeric_limits<int64_t>::max()};

// An op over bf16 tensors is the op over the same values in f32, whose results are rounded; if it is computed
// in parts, sums over all of them are rounded otherwise.
template <typename Args>
void CheckConverted(const CanonicalOp<Args>& canonical, Bytes part) {
  HostQueue queue("host", {std::numeric_limits<int64_t>::max()});
  ConvertingOps ops(queue, std::make_unique<ReferenceOps>(queue), part);
  ReferenceOps reference(queue);
  Args narrow = canonical.args, wide = canonical.args;
  for (const OpSlice& operand : SlicesOf(narrow)) {
    if (operand.typed) operand.slice->dtype = Dtype::kBf16;
  }
  const auto narrow_memory = *PlaceOperands(narrow, queue), wide_memory = *PlaceOperands(wide, queue);
  const OpSlices narrow_operands = SlicesOf(narrow), wide_operands = SlicesOf(wide);
  int typed = 0;
  for (size_t i = 0; i < narrow_operands.size(); ++i) {
    if (!narrow_operands[i].typed) continue;
    ++typed;
    const uint16_t* from = HostPointer<uint16_t>(*narrow_operands[i].slice);
    float* to = HostPointer<float>(*wide_operands[i].slice);
    for (int64_t e = 0; e < narrow_operands[i].elements; ++e) to[e] = FromBf16(from[e]);
  }
  const Bytes before = queue.peak_allocated();
  REQUIRE(RunOp(ops, narrow).ok());
  REQUIRE(RunOp(reference, wide).ok());
  for (size_t i = 0; i < narrow_operands.size(); ++i) {
    CAPTURE(narrow_operands[i].name);
    if (narrow_operands[i].access == Access::kRead) continue;
    int64_t wrong = 0;
    for (int64_t e = 0; e < narrow_operands[i].elements; ++e) {
      const float got = narrow_operands[i].typed
                            ? FromBf16(HostPointer<uint16_t>(*narrow_operands[i].slice)[e])
                            : HostPointer<float>(*narrow_operands[i].slice)[e];
      const float want = HostPointer<float>(*wide_operands[i].slice)[e];
      if (narrow_operands[i].dtype == Dtype::kF64) {
        const double sum = HostPointer<double>(*narrow_operands[i].slice)[e],
                     whole = HostPointer<double>(*wide_operands[i].slice)[e];
        wrong += std::abs(sum - whole) > 1e-9 * (1 + std::abs(whole));
        continue;
      }
      const bool sum = !narrow_operands[i].typed && part < kWhole;
      wrong += sum ? std::abs(got - want) > 1e-5f * (1 + std::abs(want))
                   : got != (narrow_operands[i].typed ? RoundToBf16(want) : want);
    }
    CHECK(wrong == 0);
  }
  CHECK((queue.peak_allocated() > before) == (typed > 0));  // scratch
}

TEST_CASE("every op over bf16 tensors is the op in f32, rounded where it stores") {
  const Bytes part{GENERATE(as<int64_t>{}, kWhole.value, 4096, 1)};
  CAPTURE(part.value);
#define MEDLEY_CHECK_OP(name)                                            \
  if (OpKind::k##name != OpKind::kCast) {                                \
    for (const CanonicalOp<name##Args>& canonical : Canonical##name()) { \
      CAPTURE(#name, canonical.form);                                    \
      CheckConverted(canonical, part);                                   \
    }                                                                    \
  }
  MEDLEY_EACH_OP(MEDLEY_CHECK_OP)
#undef MEDLEY_CHECK_OP
}

TEST_CASE("one tensor may be bf16 and another f32, and an op may be in place") {
  HostQueue queue("host", {std::numeric_limits<int64_t>::max()});
  ConvertingOps ops(queue, std::make_unique<ReferenceOps>(queue));
  const auto memory = *queue.Allocate({64});
  const Slice a{memory.get(), 0, 2, Dtype::kBf16}, b{memory.get(), 8, 2};
  HostPointer<uint16_t>(a)[0] = ToBf16(1);
  HostPointer<uint16_t>(a)[1] = ToBf16(2);
  HostPointer<float>(b)[0] = 0x1p-9f;
  HostPointer<float>(b)[1] = 3;
  REQUIRE(ops.Add({.a = a, .b = b, .c = a, .elements = 2}).ok());
  CHECK(FromBf16(HostPointer<uint16_t>(a)[0]) == 1);  // what is too small for bf16 is lost
  CHECK(FromBf16(HostPointer<uint16_t>(a)[1]) == 5);
}

TEST_CASE("scratch that is set aside is used, and enough for parts of any op that falls into some") {
  HostQueue queue("host", {std::numeric_limits<int64_t>::max()});
  ConvertingOps ops(queue, std::make_unique<ReferenceOps>(queue));
  const int64_t elements = 1000;
  const auto memory = *queue.Allocate({4 * elements}), scratch = *queue.Allocate({1024});
  const Slice a{memory.get(), 0, elements, Dtype::kBf16},
      b{memory.get(), 2 * elements, elements, Dtype::kBf16};
  for (int64_t i = 0; i < elements; ++i)
    HostPointer<uint16_t>(a)[i] = HostPointer<uint16_t>(b)[i] = ToBf16(1);
  const auto add = [&] { return ops.Add({.a = a, .b = b, .c = b, .elements = elements}); };
  const Bytes before = queue.allocated();
  ops.UseScratch({.conversions = {scratch.get(), 0, 256}});
  REQUIRE(add().ok());
  for (int64_t i = 0; i < elements; ++i) REQUIRE(FromBf16(HostPointer<uint16_t>(b)[i]) == 2);
  CHECK(queue.peak_allocated() == before);
  CHECK(ops.held().scratch == Bytes{0});
  ops.UseScratch({});
  REQUIRE(add().ok());
  CHECK(ops.held().scratch == queue.allocated() - before);
  CHECK(ops.held().scratch > Bytes{0});
}

// y = x^T dy over 300 rows, which are the depths that are summed.
TEST_CASE("a gradient of weights is summed part by part") {
  HostQueue queue("host", {std::numeric_limits<int64_t>::max()});
  ConvertingOps ops(queue, std::make_unique<ReferenceOps>(queue), KiB(4));
  const int64_t rows = 300, m = 3, n = 5;
  const auto memory = *queue.Allocate({rows * (m + n) * 2}), sums = *queue.Allocate({4 * m * n});
  const Slice x{memory.get(), 0, rows * m, Dtype::kBf16},
      dy{memory.get(), 2 * rows * m, rows * n, Dtype::kBf16}, dw{sums.get(), 0, m * n};
  for (int64_t i = 0; i < rows * m; ++i) HostPointer<uint16_t>(x)[i] = ToBf16(static_cast<float>(i % m));
  for (int64_t i = 0; i < rows * n; ++i) HostPointer<uint16_t>(dy)[i] = ToBf16(static_cast<float>(1 + i % n));
  for (const Store store : {Store::kOverwrite, Store::kAdd}) {
    REQUIRE(ops.Matmul({.a = x,
                        .b = dy,
                        .c = dw,
                        .m = m,
                        .n = n,
                        .k = rows,
                        .transpose_a = Transpose::kYes,
                        .store = store})
                .ok());
    const float times = store == Store::kAdd ? 2 : 1;
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j)
        CHECK(HostPointer<float>(dw)[i * n + j] == times * static_cast<float>(rows * i * (1 + j)));
    }
  }
  CHECK(ops.held().scratch <= KiB(4));
}

TEST_CASE("a type that an operand cannot be is refused by name") {
  HostQueue queue("host", {std::numeric_limits<int64_t>::max()});
  ConvertingOps ops(queue, std::make_unique<ReferenceOps>(queue));
  const auto memory = *queue.Allocate({256});
  const Slice x{memory.get(), 0, 4}, narrow{memory.get(), 64, 4, Dtype::kBf16},
      ids{memory.get(), 128, 4, Dtype::kI32};
  CHECK(std::string(ops.SumRows({.x = x, .out = narrow, .rows = 1, .columns = 4}).message()) ==
        "SumRows: out is bf16, must be f32");
  CHECK(std::string(ops.Add({.a = x, .b = ids, .c = x, .elements = 4}).message()) ==
        "Add: b is i32, must be f32, bf16 or f16");
}

}  // namespace
}  // namespace medley
