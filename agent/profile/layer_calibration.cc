#include "agent/profile/layer_calibration.h"

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "kernels/emulated/emulated_ops.h"
#include "runtime/base/status_macros.h"
#include "runtime/engine/shard/model_shard.h"

namespace medley {
namespace {

constexpr int kLargestInterpolated = 64;

// The ops of one layer's two passes, in order.
struct LayerOps {
  std::vector<OpCost> forward, backward;
};

// Layers that differ in micro-batch size alone.
auto ShapeOf(const MeasuredLayer& layer) {
  return std::tuple(layer.family, layer.hidden, layer.feed_forward, layer.heads, layer.key_value_heads,
                    layer.sequence, layer.precision);
}

TrainingShape ModelOf(const MeasuredLayer& layer) {
  TrainingShape shape;
  shape.model = {.layers = 1,
                 .hidden = layer.hidden,
                 .heads = layer.heads,
                 .feed_forward = layer.feed_forward,
                 .vocabulary = 1,
                 .context = layer.sequence};
  if (layer.family == MeasuredLayer::Family::kLlama) {
    shape.model.family = ModelFamily::kLlama;
    shape.model.key_value_heads = layer.key_value_heads;
  }
  shape.sequence = layer.sequence;
  shape.global_batch_sequences = layer.micro_batch;
  return shape;
}

absl::StatusOr<LayerOps> RecordLayer(const MeasuredLayer& layer, const Device& like) {
  auto owned = std::make_unique<CostRecorder>();
  CostRecorder& recorder = *owned;
  Device device;
  device.queue = std::make_unique<EmulatedQueue>(
      EmulatedQueue::Options{.name = "recorder", .limit = {std::numeric_limits<int64_t>::max()}});
  device.ops = std::move(owned);
  device.computes = like.computes;
  const TrainingShape shape = ModelOf(layer);
  const BlockRange blocks{1, 2};
  ASSIGN_OR_RETURN(
      const std::unique_ptr<ModelShard> shard,
      ModelShard::Create(
          device, {.shape = shape,
                   .chunks = {blocks},
                   .micro_batch_sequences = layer.micro_batch,
                   .buffers = BuffersOfOne(shape.model, blocks, TypeOf(like.computes.For(layer.precision))),
                   .precision = layer.precision}));
  recorder.Take();
  LayerOps ops;
  RETURN_IF_ERROR(shard->Forward({.stash = 0, .input = 0, .output = 0}, Purpose::kTrain));
  ops.forward = recorder.Take();
  RETURN_IF_ERROR(shard->Backward({.stash = 0, .input = 0, .input_gradient = 0, .output_gradient = 0}));
  ops.backward = recorder.Take();
  return ops;
}

// Makes `ops` take `wanted_seconds` in all by a factor for those products that are not among `others` and
// have none yet: element-wise ops may be the same in layers of another shape. Returns how long the rest
// takes: more than wanted, and nothing was set.
double Fit(EmulatedOps& device, const std::vector<OpCost>& ops, const std::vector<OpCost>& others,
           double wanted_seconds) {
  std::set<OpCost> free;
  for (const OpCost& op : ops) {
    const bool shared = std::find(others.begin(), others.end(), op) != others.end();
    if (op.flops > 0 && !shared && !device.HasFactor(op)) free.insert(op);
  }
  double fixed_seconds = 0, free_seconds = 0;
  for (const OpCost& op : ops) (free.contains(op) ? free_seconds : fixed_seconds) += device.SecondsOf(op);
  if (fixed_seconds >= wanted_seconds || free.empty()) return fixed_seconds;
  for (const OpCost& op : free) device.SetFactor(op, (wanted_seconds - fixed_seconds) / free_seconds);
  return fixed_seconds;
}

// Measured over roofline, of both passes.
struct Ratios {
  double forward = 1, backward = 1;
};

class Calibration {
 public:
  Calibration(Device& device, EmulatedOps& ops) : device_(device), ops_(ops) {}

  absl::Status Run() {
    for (const MeasuredLayer& layer : ops_.profile().layers) RETURN_IF_ERROR(FitMeasured(layer));
    for (const MeasuredLayer& layer : ops_.profile().layers) {
      // Once a shape: by its first layer.
      if (interpolated_.insert(ShapeOf(layer)).second) RETURN_IF_ERROR(FitBetween(layer));
    }
    return absl::OkStatus();
  }

 private:
  double Roofline(const std::vector<OpCost>& ops) const {
    double sum = 0;
    for (const OpCost& op : ops) sum += RooflineSeconds(ops_.profile(), op);
    return sum;
  }

  absl::Status FitMeasured(const MeasuredLayer& layer) {
    ASSIGN_OR_RETURN(const LayerOps passes, RecordLayer(layer, device_));
    ratios_[ShapeOf(layer)][layer.micro_batch] = {layer.forward_seconds / Roofline(passes.forward),
                                                  layer.backward_seconds / Roofline(passes.backward)};
    RETURN_IF_ERROR(Check(layer, "forward_ms", layer.forward_seconds,
                          Fit(ops_, passes.forward, passes.backward, layer.forward_seconds)));
    return Check(layer, "backward_ms", layer.backward_seconds,
                 Fit(ops_, passes.backward, passes.forward, layer.backward_seconds));
  }

  absl::Status Check(const MeasuredLayer& layer, const char* field, double wanted_seconds,
                     double fixed_seconds) const {
    if (fixed_seconds < wanted_seconds) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrFormat(
        "profile %s: %s of the layer with hidden %d, sequence %d, micro_batch %d is %g, less than the %g "
        "that the ops "
        "alone take which other passes have too; raise memory_bytes_per_second or lower op_overhead_seconds",
        ops_.profile().kind, field, layer.hidden, layer.sequence, layer.micro_batch, wanted_seconds * 1e3,
        fixed_seconds * 1e3));
  }

  // Sizes of a measured shape that were not measured. Best effort: one that cannot be fitted keeps to its
  // roofline.
  absl::Status FitBetween(MeasuredLayer layer) {
    const std::map<int, Ratios>& measured = ratios_[ShapeOf(layer)];
    for (int size = 1; size <= kLargestInterpolated; size *= 2) {
      if (measured.contains(size)) continue;
      layer.micro_batch = size;
      ASSIGN_OR_RETURN(const LayerOps passes, RecordLayer(layer, device_));
      const Ratios ratios = Between(measured, size);
      Fit(ops_, passes.forward, passes.backward, ratios.forward * Roofline(passes.forward));
      Fit(ops_, passes.backward, passes.forward, ratios.backward * Roofline(passes.backward));
    }
    return absl::OkStatus();
  }

  static Ratios Between(const std::map<int, Ratios>& measured, int size) {
    const auto above = measured.upper_bound(size);
    if (above == measured.begin()) return above->second;
    const auto below = std::prev(above);
    if (above == measured.end()) return below->second;
    const double share = static_cast<double>(size - below->first) / (above->first - below->first);
    const auto mix = [&](double a, double b) { return a + share * (b - a); };
    return {mix(below->second.forward, above->second.forward),
            mix(below->second.backward, above->second.backward)};
  }

  using Shape = decltype(ShapeOf(MeasuredLayer()));
  Device& device_;
  EmulatedOps& ops_;
  std::map<Shape, std::map<int, Ratios>> ratios_;  // by micro-batch size
  std::set<Shape> interpolated_;
};

}  // namespace

absl::Status CalibrateEmulation(Device& device) {
  auto* const ops = dynamic_cast<EmulatedOps*>(device.ops.get());
  if (ops == nullptr) return absl::OkStatus();
  return Calibration(device, *ops).Run();
}

}  // namespace medley
