// Times every op of a GPT-2 training step on one CPU device.
//
//   op_times [--variant=avx512] [--cores=0,1] [--batch=1] [--sequence=512] [--layers=12] [--precision=f32]
//   [--runs=3]
//
// Prints for each op the milliseconds of one call (best of --runs rounds), how many calls a step makes, their
// share of the step, and GFLOP/s or GB/s; then the step against the best large matmul.
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
#include "absl/types/span.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/cpu_variant.h"
#include "runtime/base/bytes.h"

namespace medley {
namespace {

struct Options {
  std::string variant = DefaultCpuVariant();
  std::vector<int> cores = {0};
  int64_t batch = 1, sequence = 512, layers = 12, columns = 768, heads = 12, vocabulary = 50257;
  Precision precision = Precision::kF32;
  int runs = 3;

  double Calls(int64_t in_a_layer, int64_t elsewhere = 0) const {
    return static_cast<double>(in_a_layer * layers + elsewhere);
  }
};

struct Row {
  std::string name;
  double calls;  // a step
  double flops;  // of one call; model FLOPs, so attention's whole square counts, masked half included
  double bytes;  // of one call, where traffic is the measure
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

  // Seconds of one call.
  double Time(const std::function<absl::Status()>& call) {
    const auto start = std::chrono::steady_clock::now();
    if (absl::Status status = call(); !status.ok()) Stop(status);
    if (absl::Status status = device_.queue->Wait(device_.queue->Record()); !status.ok()) Stop(status);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
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

// Which of a linear map's products the step takes through GELU.
enum class Activation { kNone, kOfOutput, kOfInputGradient };

// y[T,n] = x[T,k] w[k,n] + bias, its dx = dy w^T and its dw += x^T dy, db += sum of dy.
void AddLinear(Bench& bench, Ops& ops, const Options& o, const std::string& name, int64_t k, int64_t n,
               Activation activation, std::vector<Row>& rows) {
  const int64_t tokens = o.batch * o.sequence;
  const double flops = 2.0 * tokens * k * n;
  const Slice x = bench.Floats(tokens * k), w = bench.Floats(k * n), y = bench.Floats(tokens * n);
  const Slice bias = bench.Floats(n), dx = bench.Floats(tokens * k), dw = bench.Floats(k * n),
              db = bench.Floats(n);
  const Slice before = activation == Activation::kOfOutput          ? bench.Floats(tokens * n)
                       : activation == Activation::kOfInputGradient ? bench.Floats(tokens * k)
                                                                    : Slice{};
  const Epilogue forward = activation == Activation::kOfOutput ? Epilogue::kGelu : Epilogue::kNone;
  const Epilogue backward =
      activation == Activation::kOfInputGradient ? Epilogue::kGeluGradient : Epilogue::kNone;
  rows.push_back({name + " forward", o.Calls(1), flops, 0, [=, &ops, &o] {
                    return ops.Matmul({.a = x,
                                       .b = w,
                                       .c = y,
                                       .m = tokens,
                                       .n = n,
                                       .k = k,
                                       .bias = bias,
                                       .precision = o.precision,
                                       .b_constness = Constness::kParameter,
                                       .epilogue = forward,
                                       .pre_activation = before});
                  }});
  rows.push_back({name + " dx", o.Calls(1), flops, 0, [=, &ops, &o] {
                    return ops.Matmul({.a = y,
                                       .b = w,
                                       .c = dx,
                                       .m = tokens,
                                       .n = k,
                                       .k = n,
                                       .transpose_b = Transpose::kYes,
                                       .precision = o.precision,
                                       .b_constness = Constness::kParameter,
                                       .epilogue = backward,
                                       .pre_activation = before});
                  }});
  rows.push_back({name + " dw", o.Calls(1), flops, 0, [=, &ops, &o] {
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
  rows.push_back({name + " db", o.Calls(1), 0, 4.0 * tokens * n, [=, &ops] {
                    return ops.SumRows({y, db, tokens, n});
                  }});
}

void AddAttention(Bench& bench, Ops& ops, const Options& o, std::vector<Row>& rows) {
  const int64_t tokens = o.batch * o.sequence, c = o.columns, head_size = c / o.heads;
  const double flops = 4.0 * tokens * o.sequence * c;  // the whole square, as model FLOPs are counted
  const Slice qkv = bench.Floats(tokens * 3 * c), out = bench.Floats(tokens * c),
              dout = bench.Floats(tokens * c);
  const Slice dqkv = bench.Floats(tokens * 3 * c), log_sum_exp = bench.Floats(tokens * o.heads);
  rows.push_back({"attention forward", o.Calls(1), flops, 0, [=, &ops, &o] {
                    return ops.AttentionForward({qkv, out, log_sum_exp, o.batch, o.sequence, o.heads, o.heads,
                                                 head_size, o.precision});
                  }});
  rows.push_back({"attention backward", o.Calls(1), 2 * flops, 0, [=, &ops, &o] {
                    return ops.AttentionBackward({qkv, out, log_sum_exp, dout, dqkv, o.batch, o.sequence,
                                                  o.heads, o.heads, head_size, o.precision});
                  }});
}

void AddPointwise(Bench& bench, Ops& ops, const Options& o, std::vector<Row>& rows) {
  const int64_t tokens = o.batch * o.sequence, c = o.columns, wide = 4 * tokens * c;
  const Slice x = bench.Floats(wide), y = bench.Floats(wide), z = bench.Floats(wide), gamma = bench.Floats(c);
  const Slice beta = bench.Floats(c), mean = bench.Floats(tokens), rstd = bench.Floats(tokens);
  const Slice dgamma = bench.Floats(c), dbeta = bench.Floats(c);
  rows.push_back({"gelu again", o.Calls(1), 0, 8.0 * wide, [=, &ops] {
                    return ops.GeluForward({x, y, wide});
                  }});
  rows.push_back({"layer norm forward", o.Calls(4, 1), 0, 8.0 * tokens * c, [=, &ops] {
                    return ops.LayerNormForward({x, gamma, beta, y, mean, rstd, tokens, c});
                  }});
  rows.push_back({"layer norm backward", o.Calls(2, 1), 0, 12.0 * tokens * c, [=, &ops] {
                    return ops.LayerNormBackward({y, x, gamma, mean, rstd, z, dgamma, dbeta, tokens, c});
                  }});
  rows.push_back({"add", o.Calls(3), 0, 12.0 * tokens * c, [=, &ops] {
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
                    return ops.EmbeddingForward(
                        {targets, weight, positions, dx, o.batch, o.sequence, c, 0, o.vocabulary});
                  }});
  rows.push_back({"embedding backward", 1, 0, 20.0 * tokens * c, [=, &ops, &o] {
                    return ops.EmbeddingBackward(
                        {targets, x, dweight, d_positions, o.batch, o.sequence, c, 0, o.vocabulary});
                  }});
  // All parameters in units of the embedding: 3.2 at twelve layers.
  const double tables = static_cast<double>(parameters + 12 * c * c * o.layers) / parameters;
  rows.push_back({"squared norm", tables, 0, 4.0 * parameters, [=, &ops] {
                    return ops.SquaredNorm({dweight, scalar, parameters});
                  }});
  rows.push_back({"adamw", tables, 0, 28.0 * parameters, [=, &ops] {
                    const AdamWRange range = {0, parameters, 0.1f};
                    return ops.AdamW({.parameter = weight,
                                      .gradient = dweight,
                                      .m = m,
                                      .v = v,
                                      .ranges = absl::MakeConstSpan(&range, 1)});
                  }});
  rows.push_back({"fill", tables, 0, 4.0 * parameters, [=, &ops] {
                    return ops.Fill({dweight, parameters, 0.0f});
                  }});
}

// Large square matmuls, the peak that the step is held against: no part of it.
void AddPeak(Bench& bench, Ops& ops, const Options& o, std::vector<Row>& rows) {
  for (const int64_t size : {1024, 2048, 3072}) {
    const Slice a = bench.Floats(size * size), b = bench.Floats(size * size), c = bench.Floats(size * size);
    rows.push_back({"square matmul", 0, 2.0 * size * size * size, 0, [=, &ops, &o] {
                      return ops.Matmul({.a = a,
                                         .b = b,
                                         .c = c,
                                         .m = size,
                                         .n = size,
                                         .k = size,
                                         .precision = o.precision,
                                         .b_constness = Constness::kParameter});
                    }});
  }
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
  std::vector<Row> rows;
  AddPeak(bench, ops, options, rows);
  AddLinear(bench, ops, options, "c_attn", options.columns, 3 * options.columns, Activation::kNone, rows);
  AddLinear(bench, ops, options, "c_proj", options.columns, options.columns, Activation::kNone, rows);
  AddLinear(bench, ops, options, "mlp c_fc", options.columns, 4 * options.columns, Activation::kOfOutput,
            rows);
  AddLinear(bench, ops, options, "mlp c_proj", 4 * options.columns, options.columns,
            Activation::kOfInputGradient, rows);
  AddAttention(bench, ops, options, rows);
  AddPointwise(bench, ops, options, rows);
  AddEnds(bench, ops, options, rows);
  // In rounds over all ops, the best of each, so that a slow while of the machine harms none in particular.
  std::vector<double> seconds(rows.size(), 1e30);
  for (int run = 0; run <= options.runs; ++run) {
    for (size_t i = 0; i < rows.size(); ++i) seconds[i] = std::min(seconds[i], bench.Time(rows[i].call));
  }
  double step = 0, flops = 0, peak = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    step += seconds[i] * rows[i].calls;
    flops += rows[i].flops * rows[i].calls;
    if (rows[i].calls == 0) peak = std::max(peak, rows[i].flops / seconds[i]);
  }
  std::printf("%s, batch %ld, sequence %ld, %ld layers, %s\n", device->queue->name().c_str(), options.batch,
              options.sequence, options.layers, options.precision == Precision::kF32 ? "f32" : "bf16");
  std::printf("%-22s %9s %6s %7s %9s %7s\n", "op", "ms", "calls", "share %", "GFLOP/s", "GB/s");
  for (size_t i = 0; i < rows.size(); ++i) {
    std::printf("%-22s %9.3f %6.1f %7.2f %9.1f %7.1f\n", rows[i].name.c_str(), seconds[i] * 1e3,
                rows[i].calls, 100 * seconds[i] * rows[i].calls / step, rows[i].flops / seconds[i] * 1e-9,
                rows[i].bytes / seconds[i] * 1e-9);
  }
  std::printf(
      "best large matmul %.1f GFLOP/s; step %.0f ms, %.0f tokens/s, %.1f GFLOP/s = %.3f of it; workspace "
      "%s\n",
      peak * 1e-9, step * 1e3, options.batch * options.sequence / step, flops / step * 1e-9,
      flops / step / peak, FormatBytes(ops.held().scratch).c_str());
  return 0;
}

}  // namespace
}  // namespace medley

int main(int argc, char** argv) { return medley::Main(argc, argv); }
