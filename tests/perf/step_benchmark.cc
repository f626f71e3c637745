// A whole training step of a model on one device; a CPU is held against the best large oneDNN matmul on the
// same cores in the same run. Prints `key value` lines.
//
//   step_benchmark [--model gpt2-124m] [--device BACKEND[:VARIANT][/CORES] | --cores 0,1 --variant avx512]
//                  [--batch 4] [--sequence 512] [--steps 3] [--precision f32] [--ops]
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <dnnl.hpp>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/backends.h"
#include "kernels/cpu/cpu_variant.h"
#include "runtime/base/status_macros.h"
#include "runtime/device/device_name.h"
#include "runtime/device/uniform_ops.h"
#include "runtime/engine/shard/model_shard.h"
#include "runtime/ir/model/parameters.h"

namespace medley {
namespace {

struct Options {
  std::vector<int> cores = {0, 1};
  std::string variant = DefaultCpuVariant();
  std::string device;  // empty: the CPU of `variant` on `cores`
  std::string model = "gpt2-124m";
  std::string precision = "f32";
  std::string activations;
  int batch = 4, sequence = 512, steps = 3;
  bool ops = false;
};

double SecondsOf(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// FLOP/s of the fastest square matmul that oneDNN does here, operands in the layout that it likes best.
double BestMatmulFlops(Precision precision) {
  using dnnl::memory;
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  dnnl::stream stream(engine);
  const auto type = precision == Precision::kBf16 ? memory::data_type::bf16 : memory::data_type::f32;
  double best = 0;
  for (const int64_t n : {1024, 1536, 2048, 3072}) {
    const memory::desc any({n, n}, type, memory::format_tag::any);
    const memory::desc out({n, n}, memory::data_type::f32, memory::format_tag::ab);
    const dnnl::matmul::primitive_desc description({any, any, out}, engine);
    memory a(description.src_desc(), engine), b(description.weights_desc(), engine),
        c(description.dst_desc(), engine);
    const dnnl::matmul matmul(description);
    const auto run = [&] {
      matmul.execute(stream, {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, c}});
      stream.wait();
    };
    run();
    for (int i = 0; i < 4; ++i) best = std::max(best, 2.0 * n * n * n / SecondsOf(run));
  }
  return best;
}

// 6 FLOPs a parameter and token, position embeddings left out, and causal attention counted whole, as is
// usual.
double ModelFlops(const TrainingShape& shape) {
  const ModelConfig& c = shape.model;
  const double tokens = static_cast<double>(shape.global_batch_sequences) * shape.sequence;
  const double parameters =
      static_cast<double>(ModelElements(c)) -
      (FamilyOf(c).positions == PositionKind::kLearned ? static_cast<double>(c.context) * c.hidden : 0);
  return tokens * (6 * parameters + 12.0 * c.layers * c.hidden * shape.sequence);
}

ModelConfig ModelOf(const std::string& name) {
  ModelConfig gpt2{
      .layers = 12, .hidden = 768, .heads = 12, .feed_forward = 3072, .vocabulary = 50257, .context = 1024};
  if (name == "gpt2-124m") return gpt2;
  if (name == "gpt2-774m") {
    gpt2.layers = 36, gpt2.hidden = 1280, gpt2.heads = 20, gpt2.feed_forward = 5120;
    return gpt2;
  }
  if (name == "llama-110m") {  // the shape of llama2.c's stories110M
    return {.layers = 12,
            .hidden = 768,
            .heads = 12,
            .feed_forward = 2048,
            .vocabulary = 32000,
            .context = 1024,
            .family = ModelFamily::kLlama};
  }
  // Llama 3.2 1B, with room for the sequence that is timed.
  return {.layers = 16,
          .hidden = 2048,
          .heads = 32,
          .feed_forward = 8192,
          .vocabulary = 128256,
          .context = 2048,
          .family = ModelFamily::kLlama,
          .key_value_heads = 8,
          .rotary_base = 500000};
}

absl::StatusOr<Device> OpenDevice(const Options& options) {
  DeviceDescription description{
      .name = "cpu", .backend = "cpu", .variant = options.variant, .cores = options.cores};
  if (!options.device.empty()) {
    ASSIGN_OR_RETURN(description, ParseDeviceName(options.device));
  }
  for (const Backend& backend : AllBackends()) {
    if (backend.name != description.backend) continue;
    description.memory_limit = backend.nature == nullptr ? GiB(64) : backend.nature(description).memory;
    return backend.open(description);
  }
  return absl::InvalidArgumentError("no backend is named " + description.backend);
}

// Another device's ops, each of which is waited for and timed.
class TimedOps final : public UniformOps<TimedOps> {
 public:
  TimedOps(DeviceQueue& queue, std::unique_ptr<Ops> inner) : queue_(queue), inner_(std::move(inner)) {}

  template <typename Args>
  absl::Status Submit(const Args& args) {
    RETURN_IF_ERROR(queue_.Wait(queue_.Record()));
    absl::Status status;
    Times& times = times_[Label(args)];
    times.seconds += SecondsOf([&] {
      status = RunOp(*inner_, args);
      status.Update(queue_.Wait(queue_.Record()));
    });
    ++times.calls;
    return status;
  }
  void ParametersChanged() override { inner_->ParametersChanged(); }
  void ForgetParameters() override { inner_->ForgetParameters(); }
  void UseScratch(const OpScratch& scratch) override { inner_->UseScratch(scratch); }
  OpHoldings held() const override { return inner_->held(); }

  void Forget() { times_.clear(); }
  // The longest first, all that were called since Forget().
  void Print() const {
    std::vector<std::pair<std::string, Times>> sorted(times_.begin(), times_.end());
    std::sort(sorted.begin(), sorted.end(),
              [](const auto& a, const auto& b) { return a.second.seconds > b.second.seconds; });
    for (const auto& [label, times] : sorted)
      std::printf("# %9.3f ms, %4d calls: %s\n", times.seconds * 1e3, times.calls, label.c_str());
  }

 private:
  struct Times {
    double seconds = 0;
    int calls = 0;
  };

  template <typename Args>
  static std::string Label(const Args& args) {
    std::string label = NameOf(KindOf(args));
    if constexpr (requires { args.b_constness; }) {
      const auto letter = [](Transpose transpose) { return transpose == Transpose::kYes ? "t" : "n"; };
      absl::StrAppend(&label, " ", args.m, " x ", args.n, " x ", args.k, " ", letter(args.transpose_a),
                      letter(args.transpose_b), args.epilogue == Epilogue::kNone ? "" : " with epilogue");
    }
    return label;
  }

  DeviceQueue& queue_;
  const std::unique_ptr<Ops> inner_;
  std::map<std::string, Times> times_;
};

absl::Status Run(const Options& options) {
  const Precision precision = options.precision == "bf16" ? Precision::kBf16 : Precision::kF32;
  ASSIGN_OR_RETURN(Device device, OpenDevice(options));
  TimedOps* timed = nullptr;
  if (options.ops) {
    auto ops = std::make_unique<TimedOps>(*device.queue, std::move(device.ops));
    timed = ops.get();
    device.ops = std::move(ops);
  }
  const bool is_cpu = options.device.empty() || options.device.compare(0, 3, "cpu") == 0;
  const TrainingShape shape{
      .model = ModelOf(options.model), .sequence = options.sequence, .global_batch_sequences = options.batch};
  const BlockRange all{0, shape.model.blocks()};
  const Dtype activations = options.activations.empty()     ? TypeOf(device.computes.For(precision))
                            : options.activations == "bf16" ? Dtype::kBf16
                                                            : Dtype::kF32;
  const BufferCounts buffers = BuffersOfOne(shape.model, all, activations);
  ASSIGN_OR_RETURN(const std::unique_ptr<ModelShard> shard,
                   ModelShard::Create(device, {.shape = shape,
                                               .chunks = {all},
                                               .micro_batch_sequences = options.batch,
                                               .buffers = buffers,
                                               .precision = precision}));
  RETURN_IF_ERROR(shard->arena().Initialise(1));
  std::vector<int32_t> tokens(static_cast<size_t>(options.batch) * options.sequence);
  for (size_t i = 0; i < tokens.size(); ++i)
    tokens[i] = static_cast<int32_t>(i * 2654435761u % shape.model.vocabulary);
  RETURN_IF_ERROR(shard->SetTokens({}, tokens));
  RETURN_IF_ERROR(shard->SetTargets({}, tokens));
  absl::Status status;
  int64_t step_number = 0;
  const auto step = [&] {
    status.Update(shard->Forward({}, Purpose::kTrain));
    status.Update(shard->Backward({}));
    status.Update(shard->ComputeNorms(shard->arena().layout().segments));
    status.Update(shard->FetchScalars());
    status.Update(
        shard->UpdateParameters({.learning_rate = 1e-4f, .weight_decay = 0.1f, .step = ++step_number}));
    status.Update(device.queue->Wait(device.queue->Record()));
  };
  step();  // warms up
  // The machine's speed drifts: the peak is measured between the steps.
  double best_step = 1e30, peak = 0;
  for (int i = 0; i < options.steps; ++i) {
    if (timed != nullptr) timed->Forget();
    if (is_cpu) peak = std::max(peak, BestMatmulFlops(precision));
    best_step = std::min(best_step, SecondsOf(step));
  }
  if (is_cpu) peak = std::max(peak, BestMatmulFlops(precision));
  RETURN_IF_ERROR(status);
  const RankMemory predicted = MemoryOf(shape.model, shape.sequence, {all}, options.batch, buffers);
  const Bytes peak_memory = device.queue->peak_allocated();
  const double flops = ModelFlops(shape) / best_step;
  std::printf("device %s\n", device.queue->name().c_str());
  std::printf("batch %d\nsequence %d\nstep_seconds %.3f\ntokens_per_second %.1f\n", options.batch,
              options.sequence, best_step, static_cast<double>(tokens.size()) / best_step);
  std::printf("model_gflops %.1f\n", flops * 1e-9);
  std::printf("peak_memory_bytes %ld\nmemory_model_bytes %ld\n", static_cast<long>(peak_memory.value),
              static_cast<long>(predicted.total().value));
  if (timed != nullptr) timed->Print();
  if (is_cpu) {
    std::printf("best_matmul_gflops %.1f\n", peak * 1e-9);
    std::printf("cpu_%s_kernel_efficiency %.3f\n", options.precision.c_str(), flops / peak);
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace medley

int main(int argc, char** argv) {
  medley::Options options;
  CLI::App app("A training step of a model on one device.", "step_benchmark");
  app.add_option("--model", options.model)
      ->check(CLI::IsMember({"gpt2-124m", "gpt2-774m", "llama-110m", "llama-1b"}))
      ->capture_default_str();
  app.add_option("--device", options.device,
                 "such as cuda or opencl; by default the CPU of --variant on --cores");
  app.add_option("--cores", options.cores)->delimiter(',')->capture_default_str();
  app.add_option("--variant", options.variant)->capture_default_str();
  app.add_option("--batch", options.batch)->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--sequence", options.sequence)->check(CLI::Range(1, 2048))->capture_default_str();
  app.add_option("--steps", options.steps)->check(CLI::PositiveNumber)->capture_default_str();
  app.add_flag("--ops", options.ops, "wait for each op, and list how long those of the last step took");
  app.add_option("--activations", options.activations,
                 "stored as; by default as a job of the precision would")
      ->check(CLI::IsMember({"f32", "bf16"}));
  app.add_option("--precision", options.precision)
      ->check(CLI::IsMember({"f32", "bf16"}))
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  const absl::Status status = medley::Run(options);
  if (!status.ok()) std::fprintf(stderr, "step_benchmark: %s\n", std::string(status.message()).c_str());
  return status.ok() ? 0 : 1;
}
