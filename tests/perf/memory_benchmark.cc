// Holds what plans are predicted to take of memory against what devices' allocators count, one "key value" a
// line. Devices of one kind at a time, each kind in a process of its own: a process is one CPU device for good.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "agent/profile/block_timer.h"
#include "kernels/backends.h"
#include "kernels/cpu/cpu_variant.h"
#include "kernels/emulated/emulated_ops.h"
#include "runtime/base/status_macros.h"
#include "runtime/ir/model/model_share.h"
#include "runtime/ir/plan/check_plan.h"
#include "tests/perf/memory_cases.h"
#include "tests/perf/memory_run.h"

namespace medley {
namespace {

// How far above the prediction, and below, a plan must run, and must not.
constexpr double kMargin = 0.005;
constexpr Bytes kPlenty = GiB(16);

constexpr ModelConfig kGpt2 = {
    .layers = 4, .hidden = 256, .heads = 4, .feed_forward = 1024, .vocabulary = 4096, .context = 128};
constexpr ModelConfig kLlama = {.layers = 4,
                                .hidden = 256,
                                .heads = 8,
                                .feed_forward = 704,
                                .vocabulary = 4096,
                                .context = 128,
                                .family = ModelFamily::kLlama,
                                .tied_head = false,
                                .key_value_heads = 4,
                                .head_size = 32};
// For devices that are as slow as PoCL.
ModelConfig Smaller(ModelConfig config) {
  config.hidden = 128;
  config.feed_forward /= 2;
  config.vocabulary = 2048;
  return config;
}
// For those that compute nothing: more logits than there are at a time, and windows wider than a piece.
ModelConfig Larger(ModelConfig config) {
  config.hidden = 768;
  config.feed_forward *= 3;
  config.vocabulary = 32000;
  config.context = 512;
  return config;
}

// Jobs of one kind on devices of one kind.
struct Group {
  std::string name;
  DeviceDescription device;  // nothing: emulated
  ModelConfig model;
  Precision precision = Precision::kF32;
  Dtype activations = Dtype::kF32, other = Dtype::kF32;  // types in which plans store them
  int every = 1;                                         // plans out of so many are run
};

absl::StatusOr<Device> OpenEmulated(Bytes limit) {
  EmulationProfile profile;
  profile.kind = "fast";
  profile.matmul_f32_flops_per_second = 1e18;
  profile.matmul_bf16_flops_per_second = 1e18;
  profile.matmul_f16_flops_per_second = 1e18;
  profile.memory_bytes_per_second = 1e18;
  profile.host_link_bytes_per_second = 1e16;
  auto queue = std::make_unique<EmulatedQueue>(EmulatedQueue::Options{.name = "fast", .limit = limit});
  Device device;
  device.computes = profile.computes();
  device.ops = std::make_unique<EmulatedOps>(*queue, std::move(profile));
  device.queue = std::move(queue);
  device.emulated = true;
  return device;
}

absl::StatusOr<Device> OpenDevice(const Group& group, Bytes limit) {
  if (group.device.backend.empty()) return OpenEmulated(limit);
  DeviceDescription description = group.device;
  description.memory_limit = limit;
  for (const Backend& backend : AllBackends()) {
    if (backend.name == description.backend) return backend.open(description);
  }
  return absl::InternalError(absl::StrCat("no backend is named ", description.backend));
}

// What the devices' ops hold beside the model, from profiles as agents measure them, each shape once.
class Rooms {
 public:
  explicit Rooms(const Group& group) : group_(group) {}

  absl::StatusOr<std::vector<DeviceRoom>> Of(const MemoryCase& of) {
    std::vector<DeviceRoom> rooms;
    for (Rank rank = 0; rank < RankCount(of.plan); ++rank) {
      TrainingShape shape = of.spec.shape;
      const ModelShare share = AtOrigin(ShareOf(of.plan, rank, shape.model));
      shape.model = LocalModel(shape.model, share);
      const std::tuple key(share.key_value_heads.end, share.feed_forward.end, share.vocabulary.end);
      if (!known_.contains(key)) {
        ASSIGN_OR_RETURN(known_[key], Measure(shape));
      }
      rooms.push_back(known_[key]);
    }
    return rooms;
  }

 private:
  absl::StatusOr<DeviceRoom> Measure(const TrainingShape& shape) const {
    ASSIGN_OR_RETURN(Device device, OpenDevice(group_, kPlenty));
    const TimingLimits once{.fewest_rounds = 1, .most_rounds = 1, .turn_seconds = 0};
    ASSIGN_OR_RETURN(const DeviceTimes times, TimeBlocks(device, shape, group_.precision, {1, 2, 4}, once));
    DeviceRoom room{.memory = kPlenty,
                    .workspace = times.workspace,
                    .copy_bytes_per_parameter = times.copy_bytes_per_parameter};
    for (const MicroBatchTimes& of : times.by_micro_batch)
      room.workspace_by_size.push_back({of.micro_batch_sequences, of.workspace});
    return room;
  }

  const Group& group_;
  std::map<std::tuple<int, int, int>, DeviceRoom> known_;
};

std::vector<Bytes> Times(const std::vector<RankPredicted>& predicted, double factor) {
  std::vector<Bytes> limits;
  for (const RankPredicted& rank : predicted)
    limits.push_back({std::llround(factor * static_cast<double>(rank.total().value))});
  return limits;
}

// Whether all ranks fit, as planner and checker of plans say it.
bool SaidToFit(const std::vector<RankPredicted>& predicted, std::vector<DeviceRoom> rooms,
               const std::vector<Bytes>& limits) {
  for (size_t rank = 0; rank < rooms.size(); ++rank) {
    rooms[rank].memory = limits[rank];
    if (!Fits(predicted[rank].model, rooms[rank])) return false;
  }
  return true;
}

// Runs one plan and writes to `out` what is read by Figures.
absl::Status RunCase(const MemoryCase& of, Rooms& rooms, int number, std::FILE* out) {
  ASSIGN_OR_RETURN(const std::vector<DeviceRoom> rooms_of, rooms.Of(of));
  const std::vector<RankPredicted> predicted = PredictForMemory(of, rooms_of);
  int right = 0;
  const std::vector<Bytes> enough = Times(predicted, 1 + kMargin);
  absl::StatusOr<std::vector<RankTaken>> taken = RunForMemory(of, enough);
  right += taken.ok() && SaidToFit(predicted, rooms_of, enough) ? 1 : 0;
  if (absl::IsResourceExhausted(taken.status())) {
    std::fprintf(out, "note %s: %s\n", of.name.c_str(), std::string(taken.status().message()).c_str());
    taken = RunForMemory(of, std::vector<Bytes>(predicted.size(), kPlenty));
  }
  RETURN_IF_ERROR(taken.status());
  // One of the ranks has too little.
  std::vector<Bytes> too_little = Times(predicted, 1 + kMargin);
  const size_t lacks = number % predicted.size();
  too_little[lacks] = Times(predicted, 1 - kMargin)[lacks];
  const bool ran_out = absl::IsResourceExhausted(RunForMemory(of, too_little).status());
  right += ran_out && !SaidToFit(predicted, rooms_of, too_little) ? 1 : 0;
  for (size_t rank = 0; rank < predicted.size(); ++rank) {
    const RankPredicted& said = predicted[rank];
    const RankTaken& took = (*taken)[rank];
    std::fprintf(out, "rank %ld %ld %ld %ld %ld %ld %ld %ld %s, rank %zu\n", long{said.total().value},
                 long{took.peak.value}, long{(said.model.total() + said.model.host).value},
                 long{(took.set_up + took.host).value}, long{said.workspace.value},
                 long{took.ops.scratch.value}, long{said.copies.value}, long{took.ops.copies.value},
                 of.name.c_str(), rank);
  }
  std::fprintf(out, "plan %d\n", right);
  std::fflush(out);
  return absl::OkStatus();
}

absl::Status RunGroup(const Group& group, std::FILE* out) {
  TrainingSpec spec;
  spec.job_name = "memory";
  spec.shape = {.model = group.model, .sequence = group.model.context, .global_batch_sequences = 8};
  spec.steps = 2;
  spec.precision = group.precision;
  spec.seed = 1;
  Rooms rooms(group);
  int number = 0;
  for (NamedPlan& named : PlansOfEveryKind(spec.shape, group.activations, group.other)) {
    if (number++ % group.every != 0) continue;
    const std::string name = absl::StrCat(group.name, ", ", named.name);
    for (const PlanViolation& violation : CheckPlanForm(named.plan, spec.shape))
      return absl::InternalError(absl::StrCat(name, ": ", violation.detail));
    const MemoryCase of{
        .name = name, .spec = spec, .plan = std::move(named.plan), .open = [&](Rank, Bytes limit) {
          return OpenDevice(group, limit);
        }};
    const absl::Status status = RunCase(of, rooms, number, out);
    if (!status.ok()) return Annotate(status, name);
  }
  return absl::OkStatus();
}

struct Figures {
  struct Error {
    double share = 0;
    std::string what;
  };
  std::vector<Error> errors;  // of ranks
  // Of sums over ranks, in bytes: how far apart the model's parts, the ops' workspace and copies are.
  double apart_model = 0, apart_workspace = 0, apart_copies = 0, peaks = 0;
  int plans = 0, right = 0, answers = 0;

  void Read(const std::string& line) {
    std::istringstream in(line);
    std::string kind;
    in >> kind;
    if (kind == "plan") {
      int answers_right = 0;
      in >> answers_right;
      plans += 1, right += answers_right, answers += 2;
    } else if (kind == "rank") {
      double predicted = 0, peak = 0, model = 0, set_up = 0, workspace = 0, scratch = 0, copies = 0, kept = 0;
      in >> predicted >> peak >> model >> set_up >> workspace >> scratch >> copies >> kept >> std::ws;
      std::string name;
      std::getline(in, name);
      apart_model += std::abs(model - set_up);
      apart_workspace += std::abs(workspace - scratch);
      apart_copies += std::abs(copies - kept);
      peaks += peak;
      errors.push_back({std::abs(predicted - peak) / peak,
                        absl::StrCat(name, ": predicted ", FormatBytes({static_cast<int64_t>(predicted)}),
                                     ", took ", FormatBytes({static_cast<int64_t>(peak)}))});
    } else if (kind == "note") {
      std::printf("# %s\n", line.substr(5).c_str());
    }
  }

  void Add(const Figures& more) {
    errors.insert(errors.end(), more.errors.begin(), more.errors.end());
    apart_model += more.apart_model, apart_workspace += more.apart_workspace;
    apart_copies += more.apart_copies, peaks += more.peaks;
    plans += more.plans, right += more.right, answers += more.answers;
  }

  double mean() const {
    double sum = 0;
    for (const Error& error : errors) sum += error.share;
    return errors.empty() ? 0 : sum / static_cast<double>(errors.size());
  }
  double worst() const {
    double worst = 0;
    for (const Error& error : errors) worst = std::max(worst, error.share);
    return worst;
  }
};

// A group in a process of its own, whose lines are read here. Whether it ended well.
bool RunApart(const Group& group, Figures& all) {
  int ends[2];
  if (pipe(ends) != 0) return false;
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    std::FILE* const out = fdopen(ends[1], "w");
    const absl::Status status = RunGroup(group, out);
    if (!status.ok()) std::fprintf(out, "note %s\n", status.ToString().c_str());
    std::fclose(out);
    std::_Exit(status.ok() || absl::IsUnavailable(status) ? 0 : 1);
  }
  close(ends[1]);
  Figures figures;
  std::FILE* const in = fdopen(ends[0], "r");
  char line[4096];
  while (std::fgets(line, sizeof line, in) != nullptr)
    figures.Read(std::string(absl::StripSuffix(line, "\n")));
  std::fclose(in);
  int status = -1;
  waitpid(child, &status, 0);
  std::printf("# %s: %d plans, %zu ranks, mean %.5f, worst %.5f, fits %d of %d%s\n", group.name.c_str(),
              figures.plans, figures.errors.size(), figures.mean(), figures.worst(), figures.right,
              figures.answers, status == 0 ? "" : "; did not end well");
  std::fflush(stdout);
  all.Add(figures);
  return status == 0;
}

// The best instruction set of this machine that multiplies bf16, or does not; empty: there is none.
std::string BestVariant(bool multiplies_bf16) {
  for (const std::string& name : CpuVariants()) {
    if (MultipliesBf16(*ParseCpuVariant(name)) == multiplies_bf16) return name;
  }
  return "";
}

std::vector<Group> AllGroups() {
  constexpr Dtype kF32 = Dtype::kF32, kBf16 = Dtype::kBf16, kF16 = Dtype::kF16;
  std::vector<Group> groups;
  const auto cpu = [](const std::string& variant) {
    return DeviceDescription{.name = "cpu", .backend = "cpu", .variant = variant, .cores = {0}};
  };
  if (const std::string plain = BestVariant(false); !plain.empty()) {
    groups.push_back({"cpu f32, GPT-2", cpu(plain), kGpt2, Precision::kF32, kF32, kBf16});
    groups.push_back({"cpu f32, Llama", cpu(plain), kLlama, Precision::kF32, kF32, kBf16, 2});
    groups.push_back({"cpu f32 stored as bf16, Llama", cpu(plain), kLlama, Precision::kF32, kBf16, kF32, 2});
    groups.push_back({"cpu f32 stored as f16, GPT-2", cpu(plain), kGpt2, Precision::kF32, kF16, kF32, 3});
  }
  if (const std::string native = BestVariant(true); !native.empty()) {
    groups.push_back({"cpu bf16, GPT-2", cpu(native), kGpt2, Precision::kBf16, kBf16, kF32});
    groups.push_back({"cpu bf16, Llama", cpu(native), kLlama, Precision::kBf16, kBf16, kF32, 2});
  }
  const DeviceDescription opencl{.name = "opencl", .backend = "opencl", .cores = {0, 1}};
  groups.push_back({"opencl f32, GPT-2", opencl, Smaller(kGpt2), Precision::kF32, kF32, kBf16, 2});
  groups.push_back(
      {"opencl f32 stored as bf16, Llama", opencl, Smaller(kLlama), Precision::kF32, kBf16, kF32, 3});
  const DeviceDescription cuda{.name = "cuda", .backend = "cuda"};
  groups.push_back({"cuda f32, GPT-2", cuda, kGpt2, Precision::kF32, kF32, kBf16, 2});
  groups.push_back({"cuda bf16, Llama", cuda, kLlama, Precision::kBf16, kBf16, kF32, 2});
  groups.push_back({"emulated f32, GPT-2", {}, Larger(kGpt2), Precision::kF32, kF32, kBf16});
  groups.push_back({"emulated bf16, Llama", {}, Larger(kLlama), Precision::kBf16, kBf16, kF32});
  groups.push_back({"emulated f16, GPT-2", {}, Larger(kGpt2), Precision::kF16, kF16, kF32, 3});
  return groups;
}

int Main(const std::string& only) {
  Figures all;
  bool well = true;
  for (const Group& group : AllGroups()) {
    if (group.name.find(only) == std::string::npos) continue;
    well = RunApart(group, all) && well;
  }
  std::printf("memory_plans %d\nmemory_ranks %zu\n", all.plans, all.errors.size());
  std::printf("memory_error_mean %.5f\nmemory_error_worst %.5f\n", all.mean(), all.worst());
  std::printf("fits_right_share %.4f\n", all.answers == 0 ? 0 : static_cast<double>(all.right) / all.answers);
  const double peaks = std::max(all.peaks, 1.0);
  std::printf("memory_apart_model %.6f\nmemory_apart_workspace %.6f\nmemory_apart_copies %.6f\n",
              all.apart_model / peaks, all.apart_workspace / peaks, all.apart_copies / peaks);
  std::sort(all.errors.begin(), all.errors.end(),
            [](const Figures::Error& a, const Figures::Error& b) { return a.share > b.share; });
  for (size_t i = 0; i < std::min<size_t>(all.errors.size(), 8); ++i)
    std::printf("# %.5f %s\n", all.errors[i].share, all.errors[i].what.c_str());
  return well && all.plans > 0 ? 0 : 1;
}

}  // namespace
}  // namespace medley

int main(int argc, char** argv) { return medley::Main(argc > 1 ? argv[1] : ""); }
