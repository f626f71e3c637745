// Times every op of a GPT-2 training step on one CPU device.
//
//   op_times [--variant=avx512] [--cores=0,1] [--batch=1] [--sequence=512] [--layers=12] [--precision=f32]
//   [--runs=3]
//
// Prints for each op the milliseconds of one call (best of --runs), how many calls a step makes, their share
// of the step, and GFLOP/s or GB/s; then the step against the best large matmul.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/cpu_variant.h"

namespace medley {
namespace {

struct Options {
  std::string variant = DefaultCpuVariant();
  std::vector<int> cores = {0};
  int64_t batch = 1, sequence = 512, layers = 12, columns = 768, heads = 12, vocabulary = 50257;
  Precision precision = Precision::kF32;
  int runs = 3;
};

struct Row {
  std::string name;
  int64_t calls;  // a step
  double flops;   // of one call; model FLOPs, so half of the square for attention is not counted twice
  double bytes;   // of one call, where traffic is the measure
  std::function<absl::Status()> call;
};

class Bench {
 public:
  Bench(Device& device, const Options& options) : device_(device), options_(options) {}

  Slice Floats(int64_t count) {
    auto buffer = device_.queue->Allocate({count * 4});
    if (!buffer.ok()) Stop(buffer.status());
    float* values = reinterpret_cast<float*>((*buffer)->host_address());
    for (int64_t i = 0; i < count; ++i)
      values[i] = static_cast<float>((i * 2654435761u >> 7) % 2001) * 1e-3f - 1.0f;
    buffers_.push_back(*std::move(buffer));
    return {buffers_.back().get(), 0, count};
  }

  Slice Integers(int64_t count, int64_t end) {
    const Slice slice = Floats(count);
    int32_t* values = reinterpret_cast<int32_t*>(slice.buffer->host_address());
    for (int64_t i = 0; i < count; ++i) values[i] = static_cast<int32_t>(i * 7919 % end);
    return slice;
  }

  // Seconds of the fastest of `runs` calls, after one that warms up.
  double Time(const std::function<absl::Status()>& call) {
    double best = 1e30;
    for (int run = 0; run <= options_.runs; ++run) {
      const auto start = std::chrono::steady_clock::now();
      if (absl::Status status = call(); !status.ok()) Stop(status);
      if (absl::Status status = device_.queue->Wait(device_.queue->Record()); !status.ok()) Stop(status);
      const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      if (run > 0) best = std::min(best, seconds);
    }
    return best;
  }

  [[noreturn]] static void Stop(const absl::Status& status) {
    std::cerr << status << "\n";
    std::exit(1);
  }

 private:
  Device& device_;
  const Options& options_;
  std::vector<std::unique_ptr<Buffer>> buffers_;
};

// y[T,n] = x[T,k] w[k,n] + bias, its dx = dy w^T and its dw += x^T dy, db += sum of dy.
void AddLinear(Bench& bench, Ops& ops, const Options& o, const std::string& name, int64_t k, int64_t n,
               std::vector<Row>& rows) {
  const int64_t tokens = o.batch * o.sequence;
  const double flops = 2.0 * tokens * k * n;
  const Slice x = bench.Floats(tokens * k), w = bench.Floats(k * n), y = bench.Floats(tokens * n);
  const Slice bias = bench.Floats(n), dx = bench.Floats(tokens * k), dw = bench.Floats(k * n),
              db = bench.Floats(n);
  rows.push_back({name + " forward", o.layers, flops, 0, [=, &ops, &o] {
                    return ops.Matmul({.a = x,
                                       .b = w,
                                       .c = y,
                                       .m = tokens,
                                       .n = n,
                                       .k = k,
                                       .bias = bias,
                                       .precision = o.precision,
                                       .b_constness = Constness::kParameter});
                  }});
  rows.push_back({name + " dx", o.layers, flops, 0, [=, &ops, &o] {
                    return ops.Matmul({.a = y,
                                       .b = w,
                                       .c = dx,
                                       .m = tokens,
                                       .n = k,
                                       .k = n,
                                       .transpose_b = Transpose::kYes,
                                       .precision = o.precision,
                                       .b_constness = Constness::kParameter});
                  }});
  rows.push_back({name + " dw", o.layers, flops, 0, [=, &ops, &o] {
                    return ops.Matmul({.a = x,
                                       .b = y,
                                       .c = dw,
                                       .m = k,
                                       .n = n,
                                       .k = tokens,
                                       .transpose_a = Transpose::kYes,
                                       .store = Store::kAdd,
                                       .precision = o.precision});
                  }});
  rows.push_back({name + " db", o.layers, 0, 4.0 * tokens * n, [=, &ops] {
                    return ops.SumRows({y, db, tokens, n});
                  }});
}

void AddAttention(Bench& bench, Ops& ops, const Options& o, std::vector<Row>& rows) {
  const int64_t tokens = o.batch * o.sequence, c = o.columns, head_size = c / o.heads;
  const double flops = 4.0 * tokens * o.sequence * c;  // the whole square, as model FLOPs are counted
  const Slice qkv = bench.Floats(tokens * 3 * c), out = bench.Floats(tokens * c),
              dout = bench.Floats(tokens * c);
  const Slice dqkv = bench.Floats(tokens * 3 * c), log_sum_exp = bench.Floats(tokens * o.heads);
  rows.push_back({"attention forward", o.layers, flops, 0, [=, &ops, &o] {
                    return ops.AttentionForward(
                        {qkv, out, log_sum_exp, o.batch, o.sequence, o.heads, head_size, o.precision});
                  }});
  rows.push_back({"attention backward", o.layers, 2 * flops, 0, [=, &ops, &o] {
                    return ops.AttentionBackward({qkv, out, log_sum_exp, dout, dqkv, o.batch, o.sequence,
                                                  o.heads, head_size, o.precision});
                  }});
}

void AddPointwise(Bench& bench, Ops& ops, const Options& o, std::vector<Row>& rows) {
  const int64_t tokens = o.batch * o.sequence, c = o.columns, wide = 4 * tokens * c;
  const Slice x = bench.Floats(wide), y = bench.Floats(wide), z = bench.Floats(wide), gamma = bench.Floats(c);
  const Slice beta = bench.Floats(c), mean = bench.Floats(tokens), rstd = bench.Floats(tokens);
  const Slice dgamma = bench.Floats(c), dbeta = bench.Floats(c);
  rows.push_back({"gelu forward", o.layers, 0, 8.0 * wide, [=, &ops] {
                    return ops.GeluForward({x, y, wide});
                  }});
  rows.push_back({"gelu backward", o.layers, 0, 12.0 * wide, [=, &ops] {
                    return ops.GeluBackward({x, y, z, wide});
                  }});
  rows.push_back({"layer norm forward", 2 * o.layers + 1, 0, 8.0 * tokens * c, [=, &ops] {
                    return ops.LayerNormForward({x, gamma, beta, y, mean, rstd, tokens, c});
                  }});
  rows.push_back({"layer norm backward", 2 * o.layers + 1, 0, 12.0 * tokens * c, [=, &ops] {
                    return ops.LayerNormBackward({y, x, gamma, mean, rstd, z, dgamma, dbeta, tokens, c});
                  }});
  rows.push_back({"add", 3 * o.layers, 0, 12.0 * tokens * c, [=, &ops] {
                    return ops.Add({x, y, z, tokens * c});
                  }});
}

void AddEnds(Bench& bench, Ops& ops, const Options& o, std::vector<Row>& rows) {
  const int64_t tokens = o.batch * o.sequence, c = o.columns, parameters = o.vocabulary * c;
  const Slice x = bench.Floats(tokens * c), weight = bench.Floats(parameters), dx = bench.Floats(tokens * c);
  const Slice dweight = bench.Floats(parameters), m = bench.Floats(parameters), v = bench.Floats(parameters);
  const Slice targets = bench.Integers(tokens, o.vocabulary), scalar{bench.Floats(2).buffer, 0, 1};
  const Slice positions = bench.Floats(o.sequence * c), d_positions = bench.Floats(o.sequence * c);
  rows.push_back({"head loss", 1, 6.0 * tokens * parameters, 0, [=, &ops, &o] {
                    return ops.HeadLoss({x, weight, targets, scalar, dx, dweight, tokens, c, o.vocabulary,
                                         1.0f, o.precision});
                  }});
  rows.push_back({"embedding forward", 1, 0, 8.0 * tokens * c, [=, &ops, &o] {
                    return ops.EmbeddingForward({targets, weight, positions, dx, o.batch, o.sequence, c});
                  }});
  rows.push_back({"embedding backward", 1, 0, 20.0 * tokens * c, [=, &ops, &o] {
                    return ops.EmbeddingBackward({targets, x, dweight, d_positions, o.batch, o.sequence, c});
                  }});
  // All parameters are 3.2 tables at twelve layers.
  const int64_t tables = (parameters + 12 * c * c * o.layers) / parameters;
  rows.push_back({"squared norm", tables, 0, 4.0 * parameters, [=, &ops] {
                    return ops.SquaredNorm({dweight, scalar, parameters});
                  }});
  rows.push_back({"adamw", tables, 0, 28.0 * parameters, [=, &ops] {
                    return ops.AdamW(
                        {.parameter = weight, .gradient = dweight, .m = m, .v = v, .elements = parameters});
                  }});
  rows.push_back({"fill", tables, 0, 4.0 * parameters, [=, &ops] {
                    return ops.Fill({dweight, parameters, 0.0f});
                  }});
}

// The FLOP/s of the best of some large square matmuls in f32 or bf16, whichever `o` says.
double BestMatmul(Bench& bench, Ops& ops, const Options& o) {
  double best = 0;
  for (const int64_t size : {1024, 1536, 2048}) {
    const Slice a = bench.Floats(size * size), b = bench.Floats(size * size), c = bench.Floats(size * size);
    const double seconds = bench.Time([&] {
      return ops.Matmul({.a = a,
                         .b = b,
                         .c = c,
                         .m = size,
                         .n = size,
                         .k = size,
                         .precision = o.precision,
                         .b_constness = Constness::kParameter});
    });
    best = std::max(best, 2.0 * size * size * size / seconds);
  }
  return best;
}

bool ParseFlag(const std::string& argument, Options& options) {
  const std::pair<std::string, std::string> flag = absl::StrSplit(argument, absl::MaxSplits('=', 1));
  const std::map<std::string, int64_t*> numbers = {
      {"--batch", &options.batch}, {"--sequence", &options.sequence}, {"--layers", &options.layers}};
  if (const auto found = numbers.find(flag.first); found != numbers.end()) {
    return absl::SimpleAtoi(flag.second, found->second) && *found->second > 0;
  }
  if (flag.first == "--runs") return absl::SimpleAtoi(flag.second, &options.runs) && options.runs > 0;
  if (flag.first == "--variant") return !(options.variant = flag.second).empty();
  if (flag.first == "--precision") {
    options.precision = flag.second == "bf16" ? Precision::kBf16 : Precision::kF32;
    return flag.second == "bf16" || flag.second == "f32";
  }
  if (flag.first != "--cores") return false;
  options.cores.clear();
  for (const std::string& core : std::vector<std::string>(absl::StrSplit(flag.second, ','))) {
    if (!absl::SimpleAtoi(core, &options.cores.emplace_back())) return false;
  }
  return true;
}

int Main(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    if (ParseFlag(argv[i], options)) continue;
    std::cerr << "cannot use " << argv[i] << "; the flags are at the top of tests/perf/op_times.cc\n";
    return 2;
  }
  auto device = CpuBackend().open({.name = "cpu",
                                   .backend = "cpu",
                                   .variant = options.variant,
                                   .cores = options.cores,
                                   .memory_limit = GiB(64)});
  if (!device.ok()) Bench::Stop(device.status());
  Bench bench(*device, options);
  Ops& ops = *device->ops;
  const double peak = BestMatmul(bench, ops, options);
  std::vector<Row> rows;
  AddLinear(bench, ops, options, "c_attn", options.columns, 3 * options.columns, rows);
  AddLinear(bench, ops, options, "c_proj", options.columns, options.columns, rows);
  AddLinear(bench, ops, options, "mlp c_fc", options.columns, 4 * options.columns, rows);
  AddLinear(bench, ops, options, "mlp c_proj", 4 * options.columns, options.columns, rows);
  AddAttention(bench, ops, options, rows);
  AddPointwise(bench, ops, options, rows);
  AddEnds(bench, ops, options, rows);
  std::vector<double> seconds;
  double step = 0, flops = 0;
  for (const Row& row : rows) {
    seconds.push_back(bench.Time(row.call));
    step += seconds.back() * row.calls;
    flops += row.flops * row.calls;
  }
  std::printf("%s, batch %ld, sequence %ld, %ld layers, %s\n", device->queue->name().c_str(), options.batch,
              options.sequence, options.layers, options.precision == Precision::kF32 ? "f32" : "bf16");
  std::printf("%-22s %9s %6s %7s %9s %7s\n", "op", "ms", "calls", "share %", "GFLOP/s", "GB/s");
  for (size_t i = 0; i < rows.size(); ++i) {
    std::printf("%-22s %9.3f %6ld %7.2f %9.1f %7.1f\n", rows[i].name.c_str(), seconds[i] * 1e3, rows[i].calls,
                100 * seconds[i] * rows[i].calls / step, rows[i].flops / seconds[i] * 1e-9,
                rows[i].bytes / seconds[i] * 1e-9);
  }
  std::printf(
      "best large matmul %.1f GFLOP/s; step %.0f ms, %.0f tokens/s, %.1f GFLOP/s = %.3f of it; workspace "
      "%s\n",
      peak * 1e-9, step * 1e3, options.batch * options.sequence / step, flops / step * 1e-9,
      flops / step / peak, FormatBytes(ops.workspace()).c_str());
  return 0;
}

}  // namespace
}  // namespace medley

int main(int argc, char** argv) { return medley::Main(argc, argv); }
