#include "kernels/portable/portable_ops.h"

#include <catch2/catch.hpp>
#include <map>
#include <string>

#include "absl/strings/strip.h"
#include "kernels/host/host_queue.h"
#include "kernels/portable/launch_shapes.h"
#include "kernels/portable/portable_source.h"

namespace medley {
namespace {

// Runs nothing and remembers what it was asked.
class RecordingLauncher final : public KernelLauncher {
 public:
  struct Call {
    std::string kernel;
    LaunchShape shape;
    size_t arguments;
  };

  explicit RecordingLauncher(HostQueue& queue) : queue_(queue) {}
  absl::Status Launch(const char* kernel, const LaunchShape& shape,
                      absl::Span<const KernelArgument> arguments) override {
    calls.push_back({kernel, shape, arguments.size()});
    return absl::OkStatus();
  }
  absl::StatusOr<Slice> Scratch(int index, Bytes size) override {
    largest[index] = std::max(largest[index], size);
    scratch_[index] = queue_.Allocate(size).value();
    return Slice{scratch_[index].get(), 0, size.value / 4};
  }
  Bytes scratch_size() const override { return {0}; }
  bool has_f64() const override { return f64; }
  bool has_exact_f32() const override { return exact_f32; }

  std::vector<Call> calls;
  std::map<int, Bytes> largest;
  bool f64 = true, exact_f32 = true;

 private:
  HostQueue& queue_;
  std::map<int, std::unique_ptr<Buffer>> scratch_;
};

// Counts the rows of the products with a turned right operand: the head's logits.
class CountingMatmul final : public DecliningOps {
 public:
  absl::Status Matmul(const MatmulArgs& args) override {
    if (args.transpose_b == Transpose::kYes) rows.push_back(args.m);
    return absl::OkStatus();
  }
  std::vector<int64_t> rows;
};

struct Bench {
  HostQueue queue{"host", GiB(2)};
  RecordingLauncher launcher{queue};
  CountingMatmul whole;
  PortableOps ops{queue, launcher, whole, {.logits_limit = KiB(64)}};
  std::vector<std::unique_ptr<Buffer>> buffers;

  Slice Make(int64_t elements, int64_t element_bytes = 4) {
    buffers.push_back(queue.Allocate({elements * element_bytes}).value());
    return {buffers.back().get(), 0, elements};
  }
  HeadLossArgs Head(int64_t rows, int64_t columns, int64_t vocabulary) {
    return {.x = Make(rows * columns),
            .weight = Make(vocabulary * columns),
            .targets = Make(rows),
            .loss_sum = Make(1, 8),
            .dx = Make(rows * columns),
            .dweight = Make(vocabulary * columns),
            .rows = rows,
            .columns = columns,
            .vocabulary = vocabulary};
  }
  HeadStatisticsArgs Statistics(int64_t rows, int64_t columns, int64_t vocabulary) {
    return {.x = Make(rows * columns),
            .weight = Make(vocabulary * columns),
            .targets = Make(rows),
            .log_sum_exp = Make(rows),
            .target_logit = Make(rows),
            .rows = rows,
            .columns = columns,
            .vocabulary = vocabulary};
  }
  HeadGradientArgs Gradient(int64_t rows, int64_t columns, int64_t vocabulary) {
    return {.x = Make(rows * columns),
            .weight = Make(vocabulary * columns),
            .targets = Make(rows),
            .log_sum_exp = Make(rows),
            .dx = Make(rows * columns),
            .dweight = Make(vocabulary * columns),
            .rows = rows,
            .columns = columns,
            .vocabulary = vocabulary};
  }
};

TEST_CASE("the head's logits come in chunks that cover every row once and never pass the limit") {
  const int64_t rows = GENERATE(0, 1, 63, 64, 65, 130, 1000), vocabulary = GENERATE(1, 5, 100, 16384, 20000);
  const OpKind op = GENERATE(OpKind::kHeadLoss, OpKind::kHeadStatistics, OpKind::kHeadGradient);
  CAPTURE(rows, vocabulary, NameOf(op));
  Bench bench;
  if (op == OpKind::kHeadLoss) REQUIRE(bench.ops.HeadLoss(bench.Head(rows, 2, vocabulary)).ok());
  if (op == OpKind::kHeadStatistics)
    REQUIRE(bench.ops.HeadStatistics(bench.Statistics(rows, 2, vocabulary)).ok());
  if (op == OpKind::kHeadGradient) REQUIRE(bench.ops.HeadGradient(bench.Gradient(rows, 2, vocabulary)).ok());
  int64_t covered = 0;
  for (const int64_t chunk : bench.whole.rows) {
    CHECK((chunk == 1 || 4 * chunk * vocabulary <= KiB(64).value));
    covered += chunk;
  }
  CHECK(covered == rows);
  CHECK(bench.launcher.largest[KernelLauncher::kLogits].value <= std::max(KiB(64).value, 4 * vocabulary));
}

TEST_CASE("what a device cannot is declined before anything is submitted") {
  Bench bench;
  bench.launcher.f64 = false;
  bench.launcher.exact_f32 = false;
  const Slice x = bench.Make(400), one = bench.Make(1, 8);
  const AdamWRange range{0, 400, 0};
  std::vector<absl::Status> refusals = {
      bench.ops.HeadLoss(bench.Head(3, 2, 5)),
      bench.ops.HeadStatistics(bench.Statistics(3, 2, 5)),
      bench.ops.JoinHeadStatistics({x, x, one, 3, 4}),
      bench.ops.SquaredNorm({x, one, 400}),
      bench.ops.AdamW({.parameter = x, .gradient = x, .m = x, .v = x, .ranges = {&range, 1}}),
      bench.ops.AttentionForward({.qkv = bench.Make(3 * 257),
                                  .out = bench.Make(257),
                                  .log_sum_exp = bench.Make(1),
                                  .batch = 1,
                                  .sequence = 1,
                                  .heads = 1,
                                  .key_value_heads = 1,
                                  .head_size = 257})};
  for (const absl::Status& refusal : refusals) {
    CAPTURE(refusal);
    CHECK(absl::IsUnimplemented(refusal));
    CHECK(!refusal.message().empty());
  }
  CHECK(bench.launcher.calls.empty());
  CHECK(bench.whole.rows.empty());
}

TEST_CASE("tensors of one narrow type have kernels of their own, those of several are declined") {
  Bench bench;
  Slice x = bench.Make(16), y = bench.Make(16), z = bench.Make(16);
  x.dtype = y.dtype = z.dtype = Dtype::kF16;
  REQUIRE(bench.ops.Add({.a = x, .b = y, .c = z, .elements = 16}).ok());
  CHECK(bench.launcher.calls.back().kernel == "add_f16");
  z.dtype = Dtype::kBf16;
  CHECK(absl::IsUnimplemented(bench.ops.Add({.a = x, .b = y, .c = z, .elements = 16})));
  CHECK(bench.launcher.calls.size() == 1);
}

TEST_CASE("AdamW over many ranges is one launch, with groups for each range's own elements") {
  Bench bench;
  const Slice x = bench.Make(10000);
  const std::vector<AdamWRange> ranges = {{0, 1}, {5, 1024}, {2000, 0}, {3000, 1025}, {9999, 1}};
  REQUIRE(bench.ops.AdamW({.parameter = x, .gradient = x, .m = x, .v = x, .ranges = ranges}).ok());
  REQUIRE(bench.launcher.calls.size() == 1);
  CHECK(bench.launcher.calls[0].shape.groups[0] == 1 + 1 + 0 + 2 + 1);
  REQUIRE(bench.ops.AdamW({.parameter = x, .gradient = x, .m = x, .v = x}).ok());
  CHECK(bench.launcher.calls.size() == 1);
}

TEST_CASE("a matmul's bias and epilogue are one pass after the product, and none if there is neither") {
  Bench bench;
  MatmulArgs args{.a = bench.Make(6), .b = bench.Make(6), .c = bench.Make(4), .m = 2, .n = 2, .k = 3};
  REQUIRE(bench.ops.Matmul(args).ok());
  CHECK(bench.launcher.calls.size() == 1);
  args.bias = bench.Make(2);
  args.epilogue = Epilogue::kGelu;
  args.pre_activation = bench.Make(4);
  REQUIRE(bench.ops.Matmul(args).ok());
  REQUIRE(bench.launcher.calls.size() == 3);
  CHECK(bench.launcher.calls[2].kernel == "matmul_epilogue");
}

TEST_CASE("column sums cover every row with chunks that depend on the rows alone") {
  const int64_t rows = GENERATE(0, 1, 63, 64, 65, 4096, 4097, 100000);
  CAPTURE(rows);
  const ColumnChunks chunks = ChunksOf(rows);
  CHECK(chunks.chunks <= 64);
  CHECK(chunks.chunks * chunks.chunk_rows >= rows);
  CHECK((chunks.chunks - 1) * chunks.chunk_rows < std::max<int64_t>(rows, 1));
}

TEST_CASE("every kernel is launched by a name that the source has") {
  const std::string source(PortableSource());
  Bench bench;
  const Slice x = bench.Make(64), y = bench.Make(64), one = bench.Make(1, 8);
  REQUIRE(bench.ops.HeadLoss(bench.Head(3, 2, 5)).ok());
  REQUIRE(bench.ops.HeadStatistics(bench.Statistics(3, 2, 5)).ok());
  REQUIRE(bench.ops.JoinHeadStatistics({x, y, one, 3, 4}).ok());
  REQUIRE(bench.ops.HeadGradient(bench.Gradient(3, 2, 5)).ok());
  REQUIRE(bench.ops.SquaredNorm({x, one, 64}).ok());
  Slice narrow = y;
  narrow.dtype = Dtype::kBf16;
  REQUIRE(bench.ops.Cast({.x = x, .y = narrow, .elements = 3}).ok());
  REQUIRE(bench.ops.SumRows({x, y, 4, 4}).ok());
  REQUIRE(bench.ops.SumRows({narrow, x, 4, 4}).ok());
  REQUIRE(bench.ops.RmsNormForward({.x = x, .gamma = x, .y = y, .rstd = y, .rows = 4, .columns = 4}).ok());
  REQUIRE(bench.launcher.calls.size() >= 10);
  for (const RecordingLauncher::Call& call : bench.launcher.calls) {
    CAPTURE(call.kernel);
    CHECK((source.find("KERNEL " + call.kernel + "(") != std::string::npos ||
           source.find("KERNEL TYPED(" + std::string(absl::StripSuffix(call.kernel, "_bf16")) + ")(") !=
               std::string::npos));
  }
  CHECK(source.find("#include") == std::string::npos);
}

}  // namespace
}  // namespace medley
