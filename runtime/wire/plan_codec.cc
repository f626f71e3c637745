#include "runtime/wire/plan_codec.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"
#include "runtime/ir/plan/order_text.h"

namespace medley {
namespace {

absl::StatusOr<Dtype> DecodeType(v1::TensorType type, const std::string& path) {
  switch (type) {
    case v1::TENSOR_TYPE_UNSPECIFIED:
    case v1::TENSOR_TYPE_F32:
      return Dtype::kF32;
    case v1::TENSOR_TYPE_BF16:
      return Dtype::kBf16;
    case v1::TENSOR_TYPE_F16:
      return Dtype::kF16;
    default:
      break;
  }
  return absl::InvalidArgumentError(
      absl::StrCat(path, ".activations: ", static_cast<int>(type), " is none of its values"));
}

v1::TensorType EncodeType(Dtype type) {
  switch (type) {
    case Dtype::kBf16:
      return v1::TENSOR_TYPE_BF16;
    case Dtype::kF16:
      return v1::TENSOR_TYPE_F16;
    default:
      return v1::TENSOR_TYPE_F32;
  }
}

absl::StatusOr<Recompute> DecodeRecompute(v1::Recompute recompute, const std::string& path) {
  switch (recompute) {
    case v1::RECOMPUTE_UNSPECIFIED:
    case v1::RECOMPUTE_NONE:
      return Recompute::kNone;
    case v1::RECOMPUTE_ALL_BUT_ATTENTION:
      return Recompute::kAllButAttention;
    case v1::RECOMPUTE_LAYERS:
      return Recompute::kLayers;
    default:
      break;
  }
  return absl::InvalidArgumentError(
      absl::StrCat(path, ".recompute: ", static_cast<int>(recompute), " is none of its values"));
}

v1::Recompute EncodeRecompute(Recompute recompute) {
  switch (recompute) {
    case Recompute::kNone:
      break;
    case Recompute::kAllButAttention:
      return v1::RECOMPUTE_ALL_BUT_ATTENTION;
    case Recompute::kLayers:
      return v1::RECOMPUTE_LAYERS;
  }
  return v1::RECOMPUTE_NONE;
}

absl::StatusOr<LayersHome> DecodeHome(v1::LayersHome home, const std::string& path) {
  switch (home) {
    case v1::LAYERS_HOME_UNSPECIFIED:
    case v1::LAYERS_HOME_HOST:
      return LayersHome::kHost;
    case v1::LAYERS_HOME_GRADIENTS_ON_PEERS:
      return LayersHome::kGradientsOnPeers;
    case v1::LAYERS_HOME_PEERS:
      return LayersHome::kPeers;
    default:
      break;
  }
  return absl::InvalidArgumentError(
      absl::StrCat(path, ".layers_home: ", static_cast<int>(home), " is none of its values"));
}

v1::LayersHome EncodeHome(LayersHome home) {
  switch (home) {
    case LayersHome::kHost:
      return v1::LAYERS_HOME_HOST;
    case LayersHome::kGradientsOnPeers:
      return v1::LAYERS_HOME_GRADIENTS_ON_PEERS;
    case LayersHome::kPeers:
      return v1::LAYERS_HOME_PEERS;
  }
  return v1::LAYERS_HOME_HOST;
}

absl::StatusOr<ActivationsHome> DecodeHome(v1::ActivationsHome home, const std::string& path) {
  switch (home) {
    case v1::ACTIVATIONS_HOME_UNSPECIFIED:
    case v1::ACTIVATIONS_HOME_DEVICE:
      return ActivationsHome::kDevice;
    case v1::ACTIVATIONS_HOME_HOST:
      return ActivationsHome::kHost;
    default:
      break;
  }
  return absl::InvalidArgumentError(
      absl::StrCat(path, ".activations_home: ", static_cast<int>(home), " is none of its values"));
}

v1::ActivationsHome EncodeHome(ActivationsHome home) {
  return home == ActivationsHome::kHost ? v1::ACTIVATIONS_HOME_HOST : v1::ACTIVATIONS_HOME_DEVICE;
}

// A unit's shares are told by key-value heads or by query heads, all as `first`, the first one.
absl::Status CheckHeads(const v1::ModelShare& share, const v1::ModelShare& first, const std::string& path) {
  if (share.key_value_heads() == 0 && share.query_heads() == 0)
    return absl::InvalidArgumentError(absl::StrCat(path, "key_value_heads: must be given, or query_heads"));
  if (share.key_value_heads() > 0 && share.query_heads() > 0)
    return absl::InvalidArgumentError(absl::StrCat(path, "query_heads: ", share.query_heads(),
                                                   "; key_value_heads is given, too, and only one may be"));
  if ((share.query_heads() > 0) == (first.query_heads() > 0)) return absl::OkStatus();
  const auto [has, others] = share.query_heads() > 0 ? std::pair("query_heads", "key_value_heads")
                                                     : std::pair("key_value_heads", "query_heads");
  return absl::InvalidArgumentError(
      absl::StrCat(path, has, ": the unit's first share has ", others, ", and all must have the same"));
}

absl::StatusOr<Unit> DecodeUnit(const v1::Unit& unit, const std::string& path) {
  Unit result;
  result.devices.assign(unit.devices().begin(), unit.devices().end());
  for (int i = 0; i < unit.blocks_size(); ++i) {
    const v1::BlockRange& blocks = unit.blocks(i);
    if (blocks.first() >= blocks.end()) {
      return absl::InvalidArgumentError(absl::StrCat(path, ".blocks[", i, "].end: ", blocks.end(),
                                                     " is not beyond first, ", blocks.first()));
    }
    result.chunks.push_back({static_cast<int>(blocks.first()), static_cast<int>(blocks.end())});
  }
  ModelShare before;
  for (int i = 0; i < unit.shares_size(); ++i) {
    const v1::ModelShare& share = unit.shares(i);
    RETURN_IF_ERROR(CheckHeads(share, unit.shares(0), absl::StrCat(path, ".shares[", i, "].")));
    const auto next = [](IndexRange last, uint32_t count) {
      return IndexRange{last.end, last.end + static_cast<int>(count)};
    };
    before = {next(before.key_value_heads, share.key_value_heads()),
              next(before.feed_forward, share.feed_forward()), next(before.vocabulary, share.vocabulary()),
              next(before.query_heads, share.query_heads())};
    result.shares.push_back(before);
  }
  ASSIGN_OR_RETURN(result.activations, DecodeType(unit.activations(), path));
  ASSIGN_OR_RETURN(result.recompute, DecodeRecompute(unit.recompute(), path));
  result.recomputed_layers = static_cast<int>(unit.recomputed_layers());
  result.sequence_parallel = unit.sequence_parallel();
  if (unit.has_optimizer_weight()) result.optimizer_weight = static_cast<int>(unit.optimizer_weight());
  result.window_layers = static_cast<int>(unit.window_layers());
  if (unit.has_forwards_ahead()) result.forwards_ahead = static_cast<int>(unit.forwards_ahead());
  if (unit.has_exchange_parts()) result.exchange_parts = static_cast<int>(unit.exchange_parts());
  ASSIGN_OR_RETURN(result.layers_home, DecodeHome(unit.layers_home(), path));
  ASSIGN_OR_RETURN(result.activations_home, DecodeHome(unit.activations_home(), path));
  result.homed_layers = static_cast<int>(unit.homed_layers());
  absl::StatusOr<UnitOrder> order = ParseOrder(unit.order());
  if (!order.ok())
    return absl::InvalidArgumentError(absl::StrCat(path, ".order: ", order.status().message()));
  result.order = *std::move(order);
  for (const v1::Pace& pace : unit.paces()) {
    const auto nanoseconds = [](uint64_t value) {
      return static_cast<int64_t>(std::min<uint64_t>(value, Pace::kMost + 1));
    };
    result.paces.push_back({nanoseconds(pace.forward_nanoseconds()),
                            nanoseconds(pace.input_gradient_nanoseconds()),
                            nanoseconds(pace.weight_gradient_nanoseconds()),
                            nanoseconds(pace.split_nanoseconds()), nanoseconds(pace.message_nanoseconds())});
  }
  return result;
}

absl::StatusOr<Route> DecodeRoute(const v1::Plan& plan, const v1::Route& route, const std::string& path) {
  const int units = plan.units_size();
  Route result;
  result.micro_batch_sequences = static_cast<int>(MicroBatchSequencesOf(plan, route));
  if (result.micro_batch_sequences == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ".micro_batch_sequences: is missing, and the plan has none for all routes"));
  }
  result.micro_batches = static_cast<int>(route.micro_batches());
  for (int i = 0; i < route.units_size(); ++i) {
    if (route.units(i) >= static_cast<uint32_t>(units)) {
      return absl::InvalidArgumentError(absl::StrCat(path, ".units[", i, "]: ", route.units(i),
                                                     " is not in [0, ", units - 1, "], the plan's units"));
    }
    result.units.push_back(static_cast<int>(route.units(i)));
  }
  return result;
}

}  // namespace

int DeviceCountOf(const v1::Plan& plan) {
  int devices = 0;
  for (const v1::Unit& unit : plan.units()) devices += unit.devices_size();
  return devices;
}

uint32_t MicroBatchSequencesOf(const v1::Plan& plan, const v1::Route& route) {
  return route.micro_batch_sequences() > 0 ? route.micro_batch_sequences() : plan.micro_batch_sequences();
}

v1::Schedule EncodeSchedule(Schedule schedule) {
  switch (schedule) {
    case Schedule::kOneForwardOneBackward:
      break;
    case Schedule::kGPipe:
      return v1::SCHEDULE_GPIPE;
    case Schedule::kZeroBubbleH1:
      return v1::SCHEDULE_ZERO_BUBBLE_H1;
    case Schedule::kInterleaved1F1B:
      return v1::SCHEDULE_INTERLEAVED_1F1B;
    case Schedule::kInterleavedGPipe:
      return v1::SCHEDULE_INTERLEAVED_GPIPE;
    case Schedule::kZeroBubbleV:
      return v1::SCHEDULE_ZERO_BUBBLE_V;
    case Schedule::kListed:
      return v1::SCHEDULE_LISTED;
  }
  return v1::SCHEDULE_ONE_FORWARD_ONE_BACKWARD;
}

absl::StatusOr<Schedule> DecodeSchedule(v1::Schedule schedule) {
  switch (schedule) {
    case v1::SCHEDULE_UNSPECIFIED:
    case v1::SCHEDULE_ONE_FORWARD_ONE_BACKWARD:
      return Schedule::kOneForwardOneBackward;
    case v1::SCHEDULE_GPIPE:
      return Schedule::kGPipe;
    case v1::SCHEDULE_ZERO_BUBBLE_H1:
      return Schedule::kZeroBubbleH1;
    case v1::SCHEDULE_INTERLEAVED_1F1B:
      return Schedule::kInterleaved1F1B;
    case v1::SCHEDULE_INTERLEAVED_GPIPE:
      return Schedule::kInterleavedGPipe;
    case v1::SCHEDULE_ZERO_BUBBLE_V:
      return Schedule::kZeroBubbleV;
    case v1::SCHEDULE_LISTED:
      return Schedule::kListed;
    default:
      break;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("schedule: ", static_cast<int>(schedule), " is none of its values"));
}

v1::Plan EncodePlan(const Plan& plan) {
  v1::Plan result;
  const std::vector<int> sizes = MicroBatchSizesOf(plan);
  if (sizes.size() == 1) result.set_micro_batch_sequences(sizes[0]);
  result.set_schedule(EncodeSchedule(plan.schedule));
  result.set_shards_optimizer(plan.shards_optimizer);
  result.set_post_validation(plan.post_validation);
  for (const Unit& unit : plan.units) {
    v1::Unit& encoded = *result.add_units();
    for (const std::string& device : unit.devices) encoded.add_devices(device);
    for (const BlockRange& range : unit.chunks) {
      v1::BlockRange& blocks = *encoded.add_blocks();
      blocks.set_first(range.first);
      blocks.set_end(range.end);
    }
    for (const ModelShare& share : unit.shares) {
      v1::ModelShare& part = *encoded.add_shares();
      part.set_key_value_heads(share.key_value_heads.size());
      part.set_query_heads(share.query_heads.size());
      part.set_feed_forward(share.feed_forward.size());
      part.set_vocabulary(share.vocabulary.size());
    }
    encoded.set_activations(EncodeType(unit.activations));
    encoded.set_recompute(EncodeRecompute(unit.recompute));
    encoded.set_recomputed_layers(static_cast<uint32_t>(unit.recomputed_layers));
    encoded.set_sequence_parallel(unit.sequence_parallel);
    encoded.set_order(FormatOrder(unit.order));
    for (const Pace& of_chunk : unit.paces) {
      v1::Pace& pace = *encoded.add_paces();
      pace.set_forward_nanoseconds(of_chunk.forward_nanoseconds);
      pace.set_input_gradient_nanoseconds(of_chunk.input_gradient_nanoseconds);
      pace.set_weight_gradient_nanoseconds(of_chunk.weight_gradient_nanoseconds);
      pace.set_split_nanoseconds(of_chunk.split_nanoseconds);
      pace.set_message_nanoseconds(of_chunk.message_nanoseconds);
    }
    if (unit.optimizer_weight != 1) encoded.set_optimizer_weight(unit.optimizer_weight);
    encoded.set_window_layers(static_cast<uint32_t>(unit.window_layers));
    if (unit.forwards_ahead >= 0) encoded.set_forwards_ahead(static_cast<uint32_t>(unit.forwards_ahead));
    if (unit.exchange_parts != 1) encoded.set_exchange_parts(static_cast<uint32_t>(unit.exchange_parts));
    encoded.set_layers_home(EncodeHome(unit.layers_home));
    encoded.set_activations_home(EncodeHome(unit.activations_home));
    encoded.set_homed_layers(static_cast<uint32_t>(unit.homed_layers));
  }
  for (const Route& route : plan.routes) {
    v1::Route& encoded = *result.add_routes();
    for (const UnitId unit : route.units) encoded.add_units(unit.value());
    encoded.set_micro_batches(route.micro_batches);
    encoded.set_micro_batch_sequences(route.micro_batch_sequences);
  }
  return result;
}

absl::StatusOr<Plan> DecodePlan(const v1::Plan& plan) {
  Plan result;
  ASSIGN_OR_RETURN(result.schedule, DecodeSchedule(plan.schedule()));
  result.shards_optimizer = plan.shards_optimizer();
  result.post_validation = plan.post_validation();
  for (int i = 0; i < plan.units_size(); ++i) {
    ASSIGN_OR_RETURN(Unit unit, DecodeUnit(plan.units(i), absl::StrCat("units[", i, "]")));
    result.units.push_back(std::move(unit));
  }
  for (int i = 0; i < plan.routes_size(); ++i) {
    ASSIGN_OR_RETURN(Route route, DecodeRoute(plan, plan.routes(i), absl::StrCat("routes[", i, "]")));
    result.routes.push_back(std::move(route));
  }
  return result;
}

}  // namespace medley
