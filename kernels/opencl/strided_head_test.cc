#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <random>

#include "kernels/host/host_queue.h"
#include "kernels/opencl/opencl_launcher.h"
#include "kernels/portable/portable_ops.h"
#include "kernels/reference/reference_ops.h"
#include "runtime/base/narrow.h"
#include "runtime/base/op_scratch.h"
#include "tests/skipped.h"

// The head of PortableOps where a library multiplies rows with gaps: here the host does.
namespace medley {
namespace {

constexpr int64_t kRows = 150, kColumns = 12;

// Tensors on a queue.
class Tensors {
 public:
  explicit Tensors(DeviceQueue& queue) : queue_(queue) {}

  template <typename T>
  Slice Put(const std::vector<T>& values, Dtype dtype = Dtype::kF32) {
    buffers_.push_back(queue_.Allocate({static_cast<int64_t>(values.size() * sizeof(T))}).value());
    const auto* bytes = reinterpret_cast<const std::byte*>(values.data());
    REQUIRE(queue_.Upload({bytes, values.size() * sizeof(T)}, *buffers_.back(), {0}).ok());
    return {buffers_.back().get(), 0, static_cast<int64_t>(values.size()), dtype};
  }
  Slice Zeros(int64_t elements) { return Put(std::vector<float>(elements)); }
  template <typename T = float>
  std::vector<T> Get(const Slice& slice) {
    std::vector<T> values(slice.elements);
    REQUIRE(queue_
                .Download(*slice.buffer, {slice.offset_bytes},
                          {reinterpret_cast<std::byte*>(values.data()), values.size() * sizeof(T)})
                .ok());
    REQUIRE(queue_.Wait(queue_.Record()).ok());
    return values;
  }

 private:
  DeviceQueue& queue_;
  std::vector<std::unique_ptr<Buffer>> buffers_;
};

// Rounds operands to the type of the product, as a library would.
class HostProducts final : public StridedMatmul {
 public:
  explicit HostProducts(DeviceQueue& queue) : queue_(queue) {}

  absl::Status MatmulOfRows(const MatmulArgs& args, int64_t a_stride, int64_t c_stride) override {
    const bool few = args.n < 8 || args.k < 8 || args.m < 8;
    shapes.push_back({args.m, args.n, args.k});
    if (declines_few && few) return absl::UnimplementedError("few");
    if (declines_weights && !few && args.transpose_a == Transpose::kYes)
      return absl::UnimplementedError("weights");
    const Dtype dtype = TypeOf(args.precision);
    const std::vector<float> a = Read(args.a, dtype), b = Read(args.b, dtype);
    std::vector<float> c = Read(args.c, Dtype::kF32);
    const bool turned_a = args.transpose_a == Transpose::kYes, turned_b = args.transpose_b == Transpose::kYes;
    for (int64_t row = 0; row < args.m; ++row) {
      for (int64_t column = 0; column < args.n; ++column) {
        float& out = c[row * c_stride + column];
        double sum = args.store == Store::kAdd ? out : 0;
        for (int64_t i = 0; i < args.k; ++i) {
          sum += double{a[turned_a ? i * a_stride + row : row * a_stride + i]} *
                 b[turned_b ? column * args.k + i : i * args.n + column];
        }
        out = static_cast<float>(sum);
      }
    }
    const auto* bytes = reinterpret_cast<const std::byte*>(c.data());
    return queue_.Upload({bytes, 4 * c.size()}, *args.c.buffer, {args.c.offset_bytes});
  }

  std::vector<std::array<int64_t, 3>> shapes;
  bool declines_few = false, declines_weights = false;

 private:
  std::vector<float> Read(const Slice& slice, Dtype dtype) {
    Tensors tensors(queue_);
    if (slice.dtype == Dtype::kF32) {
      std::vector<float> values = tensors.Get(slice);
      if (dtype == Dtype::kF32) return values;
      for (float& value : values) value = FromNarrow(ToNarrow(value, dtype), dtype);
      return values;
    }
    REQUIRE(slice.dtype == dtype);
    std::vector<float> values;
    for (const uint16_t bits : tensors.Get<uint16_t>(slice)) values.push_back(FromNarrow(bits, dtype));
    return values;
  }

  DeviceQueue& queue_;
};

struct Results {
  std::vector<float> loss, log_sum_exp, target_logit, dx, dweight;  // of HeadLoss: loss, dx, dweight
};

// HeadLoss, or the two ops of a head that is shared, on the same made-up tensors. Where HeadLoss or HeadGradient does
// not end well, `error` is set if it is given.
Results RunHead(DeviceQueue& queue, Ops& ops, int64_t vocabulary, Precision precision, bool shared,
                absl::Status* error = nullptr) {
  std::mt19937_64 random(7);
  std::normal_distribution<float> normal;
  const auto values = [&](int64_t count) {
    std::vector<float> result(count);
    for (float& value : result) value = normal(random);
    return result;
  };
  std::vector<int32_t> targets(kRows);
  for (int64_t row = 0; row < kRows; ++row) targets[row] = static_cast<int32_t>(row * 5 % vocabulary);
  Tensors tensors(queue);
  const Slice x = tensors.Put(values(kRows * kColumns)), weight = tensors.Put(values(vocabulary * kColumns));
  const Slice dx = tensors.Zeros(kRows * kColumns), dweight = tensors.Put(values(vocabulary * kColumns));
  const Slice of_targets = tensors.Put(targets), loss = tensors.Put(std::vector<double>{1});
  const Slice log_sum_exp = tensors.Zeros(kRows), target_logit = tensors.Zeros(kRows);
  if (shared) {
    REQUIRE(ops.HeadStatistics({.x = x,
                                .weight = weight,
                                .targets = of_targets,
                                .log_sum_exp = log_sum_exp,
                                .target_logit = target_logit,
                                .rows = kRows,
                                .columns = kColumns,
                                .vocabulary = vocabulary,
                                .precision = precision})
                .ok());
    REQUIRE(ops.HeadGradient({.x = x,
                              .weight = weight,
                              .targets = of_targets,
                              .log_sum_exp = log_sum_exp,
                              .dx = dx,
                              .dweight = dweight,
                              .rows = kRows,
                              .columns = kColumns,
                              .vocabulary = vocabulary,
                              .gradient_scale = 0.5f,
                              .precision = precision})
                .ok());
  } else {
    const absl::Status status = ops.HeadLoss({.x = x,
                                              .weight = weight,
                                              .targets = of_targets,
                                              .loss_sum = loss,
                                              .dx = dx,
                                              .dweight = dweight,
                                              .rows = kRows,
                                              .columns = kColumns,
                                              .vocabulary = vocabulary,
                                              .gradient_scale = 0.5f,
                                              .precision = precision});
    if (error != nullptr) *error = status;
    REQUIRE((status.ok() || error != nullptr));
  }
  return {{static_cast<float>(tensors.Get<double>(loss)[0])},
          tensors.Get(log_sum_exp),
          tensors.Get(target_logit),
          tensors.Get(dx),
          tensors.Get(dweight)};
}

// The largest difference, of the largest value.
double Apart(const std::vector<float>& got, const std::vector<float>& want) {
  REQUIRE(got.size() == want.size());
  double apart = 0, largest = 1e-30;
  for (size_t i = 0; i < got.size(); ++i) {
    if (!std::isfinite(got[i])) return 1e30;
    apart = std::max<double>(apart, std::abs(got[i] - want[i]));
    largest = std::max<double>(largest, std::abs(want[i]));
  }
  return apart / largest;
}

// The ops under test on the first OpenCL device, with logits of 64 rows at a time, so that there are several parts.
struct Bench {
  explicit Bench(int64_t vocabulary)
      : ops(*queue, *launcher, whole,
            {.logits_limit = {4 * 64 * LogitsStride(vocabulary)}, .strided = &products}) {}

  static std::vector<OpenClDevice> Devices() {
    const auto opencl = LoadOpenCl();
    return opencl.ok() ? ListOpenClDevices(**opencl) : std::vector<OpenClDevice>{};
  }

  std::unique_ptr<OpenClQueue> queue = OpenClQueue::Create(**LoadOpenCl(), Devices()[0], MiB(64)).value();
  std::unique_ptr<OpenClLauncher> launcher =
      OpenClLauncher::Create(*queue, ProgramCache(ProgramCache::DefaultFolder())).value();
  HostProducts products{*queue};
  DecliningOps nothing;
  PortableOps whole{*queue, *launcher, nothing};
  PortableOps ops;
};

TEST_CASE("gradients of logits in 16 bits, in the place of the logits, agree with the reference") {
  if (Bench::Devices().empty()) return Skipped("an OpenCL device", "there is none");
  const int64_t vocabulary = GENERATE(5, 24, 29, 2056, 2063);
  const Precision precision = GENERATE(Precision::kBf16, Precision::kF16);
  const bool shared = GENERATE(false, true), declines_few = GENERATE(false, true);
  CAPTURE(vocabulary, precision, shared, declines_few);
  Bench bench(vocabulary);
  bench.products.declines_few = declines_few;
  HostQueue host("reference", MiB(64));
  ReferenceOps reference(host);
  const Results want = RunHead(host, reference, vocabulary, Precision::kF32, shared);
  const Results got = RunHead(*bench.queue, bench.ops, vocabulary, precision, shared);
  CHECK(Apart(got.loss, want.loss) < 4e-3);
  CHECK(Apart(got.dx, want.dx) < 2e-2);
  CHECK(Apart(got.dweight, want.dweight) < 2e-2);
  if (shared) {
    CHECK(Apart(got.log_sum_exp, want.log_sum_exp) < 2e-2);
    CHECK(Apart(got.target_logit, want.target_logit) < 2e-2);
  }
  // All products but those of the last few tokens are of sizes that tensor cores like.
  REQUIRE(!bench.products.shapes.empty());
  if (vocabulary < 8) return;
  for (const auto& [m, n, k] : bench.products.shapes) {
    CAPTURE(m, n, k);
    CHECK((n % 8 == 0 || n == vocabulary % 8 || n == kColumns));
    CHECK((k % 8 == 0 || k == vocabulary % 8 || k == kColumns || k == kRows % 64));
  }
}

TEST_CASE("what is declined before anything was added is done otherwise; after that it is an error") {
  if (Bench::Devices().empty()) return Skipped("an OpenCL device", "there is none");
  absl::Status status;
  for (const int64_t vocabulary : {24, 29}) {
    Bench bench(vocabulary);
    bench.products.declines_weights = true;
    RunHead(*bench.queue, bench.ops, vocabulary, Precision::kBf16, /*shared=*/false, &status);
    CAPTURE(vocabulary, status);
    CHECK((vocabulary == 24 ? status.ok() : absl::IsInternal(status)));
  }
}

}  // namespace
}  // namespace medley
