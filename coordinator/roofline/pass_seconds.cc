#include "coordinator/roofline/pass_seconds.h"

#include <algorithm>
#include <cmath>

#include "runtime/ir/link/all_reduce_times.h"

namespace medley {
namespace {

// The larger of two, rounded where they are near each other: host and device do not keep step exactly.
double LargerOf(double a, double b) {
  constexpr double kSharpness = 8;
  const double larger = std::max(a, b), smaller = std::min(a, b);
  if (larger <= 0) return 0;
  return larger * std::pow(1 + std::pow(smaller / larger, kSharpness), 1 / kSharpness);
}

double ProductSeconds(const CalibratedDevice& device, const MatrixProduct& product) {
  const Calibration& calibration = device.calibration;
  const double smallest = std::min({product.rows, product.columns, product.depth});
  return product.Flops() / (device.figures.matmul_flops_per_second * calibration.matmul_share) *
             (1 + calibration.matmul_half_size / smallest) +
         calibration.operation_seconds;
}

// Of the bytes that a member of a ring of `members` sends in a sum of `bytes`.
double RingBytes(double bytes, int members) { return 2 * bytes * (members - 1) / members; }

// One way, of a device whose group has so many members of one node and others elsewhere.
double BetweenNodes(const CalibratedDevice& device, const TrainingRun& run, int members_on_node) {
  return std::min(run.network_bytes_per_second * members_on_node, device.figures.node_link_bytes_per_second);
}

// Of devices of one node: as was measured of them, or by a ring that gets `share` of their links.
double SumOnNodeSeconds(const CalibratedDevice& device, double share, int members, double bytes) {
  const DeviceFigures& figures = device.figures;
  if (members < 2) return 0;
  if (!figures.all_reduce.empty()) return MeasuredSumSeconds(figures.all_reduce, members, bytes);
  return RingBytes(bytes, members) / (figures.node_link_bytes_per_second * share);
}

double HostSeconds(const CalibratedDevice& device, const TrainingRun& run) {
  return device.calibration.host_layer_seconds *
         (1 + device.calibration.host_peer_share * (std::min(run.ranks, run.devices_per_node) - 1));
}

// A ring over the replicas. Ranks of a stage lie side by side, then its replicas, then the stages.
double ReplicaSumSeconds(const CalibratedDevice& device, const TrainingRun& run, double bytes) {
  const double share = device.calibration.gradient_share;
  if (run.ranks * run.replicas <= run.devices_per_node)
    return SumOnNodeSeconds(device, share, run.replicas, bytes);
  const int on_node = std::clamp(run.devices_per_node / run.ranks, 1, run.replicas);
  return RingBytes(bytes, run.replicas) / (share * BetweenNodes(device, run, on_node));
}

// To gather a layer's parameters, or to scatter its gradients: half of a sum of 16-bit values.
double HalfSumOfLayerSeconds(const CalibratedDevice& device, const TrainingRun& run) {
  return ReplicaSumSeconds(device, run, 2 * LayerParameters(run)) / 2;
}

RankPass Repeated(const TrainingRun& run, const RankWork& layer) {
  switch (run.recompute) {
    case Recompute::kNone:
      break;
    case Recompute::kAllButAttention:
      // As publications have it: what attention alone makes is made again.
      return AttentionWork(run);
    case Recompute::kLayers:
      return layer.forward;
  }
  return {};
}

}  // namespace

double ComputingSeconds(const CalibratedDevice& device, const RankPass& work) {
  const Calibration& calibration = device.calibration;
  double seconds = calibration.operation_seconds * work.operations;
  for (const MatrixProduct& product : work.products) seconds += ProductSeconds(device, product);
  seconds += work.attention_flops / (device.figures.matmul_flops_per_second * calibration.attention_share);
  seconds += work.bytes / (device.figures.memory_bytes_per_second * calibration.memory_share);
  return seconds;
}

double ExchangingSeconds(const CalibratedDevice& device, const TrainingRun& run, const RankPass& work) {
  if (work.exchanges == 0) return 0;
  const double share = device.calibration.exchange_share;
  const double sum_seconds = run.ranks > run.devices_per_node
                                 ? RingBytes(work.exchanged_bytes, run.ranks) /
                                       (share * BetweenNodes(device, run, run.devices_per_node))
                                 : SumOnNodeSeconds(device, share, run.ranks, work.exchanged_bytes);
  // Of a sum that is cut into pieces beside products, about half is seen: the first and the last piece, and what the
  // products lose to it.
  constexpr double kSeenBesideProducts = 0.5;
  return (run.overlaps_exchanges ? kSeenBesideProducts : 1) * work.exchanges *
         (device.calibration.exchange_seconds + sum_seconds);
}

double MessageSeconds(const CalibratedDevice& device, const TrainingRun& run) {
  const double bytes = run.element_bytes * run.Rows() * run.shape.model.hidden / run.ranks;
  const bool in_node = run.ranks * run.stages * run.replicas <= run.devices_per_node;
  const double rate = in_node ? device.figures.node_link_bytes_per_second : run.network_bytes_per_second;
  return device.calibration.message_seconds + bytes / (rate * device.calibration.message_share);
}

double GradientSumSeconds(const CalibratedDevice& device, const TrainingRun& run, double parameters) {
  if (run.parameter_gathers > 0) return 0;
  return ReplicaSumSeconds(device, run, parameters * run.gradient_bytes_per_parameter);
}

double UpdateSeconds(const CalibratedDevice& device, const TrainingRun& run, double parameters) {
  // Gradient, parameter, both moments read, the latter three and a copy written; the norm before reads once more.
  constexpr double kBytesPerParameter = 34;
  const double own = run.shards_optimizer ? parameters / run.replicas : parameters;
  return own * kBytesPerParameter /
         (device.figures.memory_bytes_per_second * device.calibration.update_share);
}

BlockTimes RooflineTimes(const CalibratedDevice& device, const TrainingRun& run) {
  const auto seconds = [&](const RankPass& work) {
    return ComputingSeconds(device, work) + ExchangingSeconds(device, run, work);
  };
  const RankWork layer = LayerWork(run), embedding = EmbeddingWork(run), head = HeadWork(run);
  const double host = HostSeconds(device, run);
  const double host_backward = host * device.calibration.host_backward_ratio;
  const double host_again = run.recompute == Recompute::kLayers ? host : 0;
  BlockTimes times;
  times.layer.forward_seconds = LargerOf(seconds(layer.forward), host);
  times.layer.backward_seconds =
      LargerOf(seconds(layer.backward) + seconds(Repeated(run, layer)), host_backward + host_again);
  if (run.parameter_gathers > 0) {
    const double half_sum = HalfSumOfLayerSeconds(device, run);
    times.layer.forward_seconds = LargerOf(times.layer.forward_seconds, half_sum);
    times.layer.backward_seconds = LargerOf(times.layer.backward_seconds, run.parameter_gathers * half_sum);
  }
  times.embedding = {seconds(embedding.forward), seconds(embedding.backward), 0};
  times.head = {seconds(head.forward), seconds(head.backward), 0};
  return times;
}

}  // namespace medley
