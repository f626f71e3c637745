#include "runtime/wire/cluster_codec.h"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/base/some_names.h"
#include "runtime/base/status_macros.h"
#include "runtime/wire/device_codec.h"
#include "runtime/wire/link_codec.h"
#include "runtime/wire/node_groups.h"

namespace medley {
namespace {

ProfileCorrection DecodeCorrection(const v1::ProfileCorrection& correction) {
  return {correction.factor(), static_cast<int>(correction.steps()), correction.job_id(),
          correction.at_seconds()};
}

v1::TimeClass EncodeTimeClass(TimeClass times) {
  switch (times) {
    case TimeClass::kPasses:
      break;
    case TimeClass::kRecomputations:
      return v1::TIME_CLASS_RECOMPUTATIONS;
    case TimeClass::kUpdates:
      return v1::TIME_CLASS_UPDATES;
    case TimeClass::kNorms:
      return v1::TIME_CLASS_NORMS;
    case TimeClass::kFetches:
      return v1::TIME_CLASS_FETCHES;
    case TimeClass::kStores:
      return v1::TIME_CLASS_STORES;
  }
  return v1::TIME_CLASS_UNSPECIFIED;
}

// `of`: a DeviceProfile or a SharedSlowdown. Classes that a newer version may know beside are left out.
template <typename Message>
ProfileCorrections DecodeCorrections(const Message& of) {
  ProfileCorrections corrections;
  if (of.has_correction()) corrections[TimeClass::kPasses] = DecodeCorrection(of.correction());
  for (const v1::ProfileCorrection& other : of.other_corrections()) {
    for (const TimeClass times : kTimeClasses) {
      if (times != TimeClass::kPasses && EncodeTimeClass(times) == other.times())
        corrections[times] = DecodeCorrection(other);
    }
  }
  return corrections;
}

template <typename Message>
void EncodeCorrections(const ProfileCorrections& corrections, Message& of) {
  for (const auto& [times, correction] : corrections) {
    v1::ProfileCorrection& encoded =
        times == TimeClass::kPasses ? *of.mutable_correction() : *of.add_other_corrections();
    encoded = EncodeCorrection(times, correction);
  }
}

Provenance DecodeProvenance(const v1::Provenance& with) {
  return {with.device(),
          with.host(),
          with.hardware(),
          with.driver(),
          {with.libraries().begin(), with.libraries().end()},
          with.medley_version()};
}

// Unspecified, and what a newer version may know beside: measured, as profiles are that say nothing.
PredictionBasis DecodeBasis(v1::PredictionBasis basis) {
  switch (basis) {
    case v1::PREDICTION_BASIS_DATA_SHEETS:
      return PredictionBasis::kOtherShapes;
    case v1::PREDICTION_BASIS_DATA_SHEETS_OF_OTHER_KINDS:
      return PredictionBasis::kOtherKinds;
    default:
      return PredictionBasis::kMeasuredLayers;
  }
}

v1::Provenance EncodeProvenance(const Provenance& with) {
  v1::Provenance encoded;
  encoded.set_device(with.device);
  encoded.set_host(with.host);
  encoded.set_hardware(with.hardware);
  encoded.set_driver(with.driver);
  encoded.mutable_libraries()->Add(with.libraries.begin(), with.libraries.end());
  encoded.set_medley_version(with.medley_version);
  return encoded;
}

v1::BlockPassTimes EncodeTimes(const ProfiledTimes& times) {
  v1::BlockPassTimes encoded;
  encoded.set_embedding_forward_seconds(times.blocks.embedding.forward_seconds);
  encoded.set_embedding_backward_seconds(times.blocks.embedding.backward_seconds);
  encoded.set_layer_forward_seconds(times.blocks.layer.forward_seconds);
  encoded.set_layer_backward_seconds(times.blocks.layer.backward_seconds);
  encoded.set_layer_weight_gradient_seconds(times.blocks.layer.weight_gradient_seconds);
  encoded.set_layer_recompute_seconds(times.blocks.layer.recompute_seconds);
  encoded.set_layer_recompute_but_attention_seconds(times.blocks.layer.recompute_but_attention_seconds);
  encoded.set_layer_split_seconds(times.blocks.layer.split_seconds);
  encoded.set_head_forward_seconds(times.blocks.head.forward_seconds);
  encoded.set_head_backward_seconds(times.blocks.head.backward_seconds);
  encoded.set_micro_batch_sequences(static_cast<uint32_t>(times.micro_batch_sequences));
  encoded.set_workspace_bytes(static_cast<uint64_t>(times.workspace.value));
  encoded.set_spread(times.spread);
  encoded.set_doubt(times.doubt);
  return encoded;
}

// `to`: a LinkProfile or a LinkClass.
template <typename Message>
void SetCost(const LinkCost& cost, double bytes_per_second, Message& to) {
  to.set_latency_seconds(cost.transfer.LatencySeconds());
  to.set_bytes_per_second(bytes_per_second);
  to.set_all_reduce_bytes_per_second(cost.exchange.BytesPerSecond());
  *to.mutable_transfer() = EncodeLinkModel(cost.transfer);
  *to.mutable_exchange() = EncodeLinkModel(cost.exchange);
  *to.mutable_all_reduce() = EncodeAllReduceTimes(cost.all_reduce);
}

v1::LinkProfile EncodeLink(const ClusterLink& link) {
  v1::LinkProfile encoded;
  encoded.set_a(link.a);
  encoded.set_b(link.b);
  SetCost(link.cost, link.bytes_per_second, encoded);
  encoded.set_measured_at_seconds(link.measured_at_seconds);
  return encoded;
}

absl::Status Under(const std::string& field, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(field, ".", status.message()));
}

}  // namespace

ClusterDevice DecodeClusterDevice(const v1::Device& device) {
  return {DecodeDevice(device),
          device.kind(),
          {.bf16 = device.computes_bf16(), .f16 = device.computes_f16()},
          device.emulated(),
          device.price_per_hour()};
}

v1::Device EncodeClusterDevice(const ClusterDevice& device) {
  v1::Device encoded = EncodeDevice(device.description);
  encoded.set_kind(device.kind);
  encoded.set_computes_bf16(device.computes.bf16);
  encoded.set_computes_f16(device.computes.f16);
  encoded.set_emulated(device.emulated);
  if (device.price_per_hour > 0) encoded.set_price_per_hour(device.price_per_hour);
  return encoded;
}

ProfiledTimes DecodeTimes(const v1::BlockPassTimes& times) {
  ProfiledTimes decoded;
  decoded.micro_batch_sequences = static_cast<int>(times.micro_batch_sequences());
  decoded.blocks = {{times.embedding_forward_seconds(), times.embedding_backward_seconds()},
                    {times.layer_forward_seconds(), times.layer_backward_seconds(),
                     times.layer_weight_gradient_seconds(), times.layer_recompute_seconds(),
                     times.layer_recompute_but_attention_seconds(), times.layer_split_seconds()},
                    {times.head_forward_seconds(), times.head_backward_seconds()}};
  decoded.workspace = DecodeBytes(times.workspace_bytes());
  decoded.spread = times.spread();
  decoded.doubt = times.doubt();
  return decoded;
}

v1::PredictionBasis EncodeBasis(PredictionBasis basis) {
  switch (basis) {
    case PredictionBasis::kMeasuredLayers:
      return v1::PREDICTION_BASIS_MEASURED_DEVICES;
    case PredictionBasis::kOtherShapes:
      return v1::PREDICTION_BASIS_DATA_SHEETS;
    case PredictionBasis::kOtherKinds:
      break;
  }
  return v1::PREDICTION_BASIS_DATA_SHEETS_OF_OTHER_KINDS;
}

v1::ProfileCorrection EncodeCorrection(TimeClass times, const ProfileCorrection& correction) {
  v1::ProfileCorrection encoded;
  encoded.set_times(EncodeTimeClass(times));
  encoded.set_factor(correction.factor);
  encoded.set_steps(static_cast<uint32_t>(correction.steps));
  encoded.set_job_id(correction.job_id);
  encoded.set_at_seconds(correction.at_seconds);
  return encoded;
}

DeviceProfile DecodeProfile(const v1::DeviceProfile& profile) {
  DeviceProfile decoded;
  decoded.device_kind = profile.device_kind();
  decoded.shape = profile.shape();
  for (const v1::BlockPassTimes& times : profile.times()) decoded.times.push_back(DecodeTimes(times));
  decoded.update_seconds_per_parameter = profile.update_seconds_per_parameter();
  decoded.norm_seconds_per_parameter = profile.norm_seconds_per_parameter();
  decoded.workspace = DecodeBytes(profile.workspace_bytes());
  decoded.copy_bytes_per_parameter = profile.copy_bytes_per_parameter();
  decoded.fetch_bytes_per_second = profile.fetch_bytes_per_second();
  decoded.store_bytes_per_second = profile.store_bytes_per_second();
  decoded.has_own_memory = profile.has_own_memory();
  decoded.group_library = profile.group_library();
  decoded.measured_at_seconds = profile.measured_at_seconds();
  decoded.provenance = profile.provenance();
  if (profile.has_measured_with()) decoded.measured_with = DecodeProvenance(profile.measured_with());
  decoded.corrections = DecodeCorrections(profile);
  for (const v1::ProfileCorrection& of : profile.devices())
    decoded.devices[of.device()] = DecodeCorrection(of);
  decoded.basis = DecodeBasis(profile.basis());
  return decoded;
}

v1::DeviceProfile EncodeProfile(const DeviceProfile& profile) {
  v1::DeviceProfile encoded;
  encoded.set_device_kind(profile.device_kind);
  encoded.set_shape(profile.shape);
  for (const ProfiledTimes& times : profile.times) *encoded.add_times() = EncodeTimes(times);
  encoded.set_update_seconds_per_parameter(profile.update_seconds_per_parameter);
  encoded.set_norm_seconds_per_parameter(profile.norm_seconds_per_parameter);
  encoded.set_workspace_bytes(static_cast<uint64_t>(profile.workspace.value));
  encoded.set_copy_bytes_per_parameter(profile.copy_bytes_per_parameter);
  encoded.set_fetch_bytes_per_second(profile.fetch_bytes_per_second);
  encoded.set_store_bytes_per_second(profile.store_bytes_per_second);
  encoded.set_has_own_memory(profile.has_own_memory);
  encoded.set_group_library(profile.group_library);
  encoded.set_measured_at_seconds(profile.measured_at_seconds);
  encoded.set_provenance(profile.provenance);
  if (profile.measured_with) *encoded.mutable_measured_with() = EncodeProvenance(*profile.measured_with);
  EncodeCorrections(profile.corrections, encoded);
  for (const auto& [device, correction] : profile.devices) {
    v1::ProfileCorrection& of = *encoded.add_devices() = EncodeCorrection(TimeClass::kPasses, correction);
    of.set_device(device);
  }
  if (profile.basis != PredictionBasis::kMeasuredLayers) encoded.set_basis(EncodeBasis(profile.basis));
  return encoded;
}

HostSlowdown DecodeSlowdown(const v1::HostSlowdown& slowdown) {
  HostSlowdown decoded{
      slowdown.host(), slowdown.shape(), {}, slowdown.measured_at_seconds(), slowdown.provenance()};
  for (const v1::SharedSlowdown& shared : slowdown.devices()) {
    SharedSlowdown& device =
        decoded.devices.emplace_back(SharedSlowdown{.device = shared.device(),
                                                    .device_kind = shared.device_kind(),
                                                    .factor = shared.factor(),
                                                    .update_factor = shared.update_factor(),
                                                    .spread = shared.spread()});
    device.corrections = DecodeCorrections(shared);
  }
  return decoded;
}

v1::HostSlowdown EncodeSlowdown(const HostSlowdown& slowdown) {
  v1::HostSlowdown encoded;
  encoded.set_host(slowdown.host);
  encoded.set_shape(slowdown.shape);
  for (const SharedSlowdown& shared : slowdown.devices) {
    v1::SharedSlowdown& device = *encoded.add_devices();
    device.set_device(shared.device);
    device.set_device_kind(shared.device_kind);
    device.set_factor(shared.factor);
    device.set_update_factor(shared.update_factor);
    device.set_spread(shared.spread);
    EncodeCorrections(shared.corrections, device);
  }
  encoded.set_measured_at_seconds(slowdown.measured_at_seconds);
  encoded.set_provenance(slowdown.provenance);
  return encoded;
}

absl::StatusOr<ClusterLink> DecodeClusterLink(const v1::LinkProfile& link) {
  ASSIGN_OR_RETURN(LinkCost cost, DecodeLink(link));
  return ClusterLink{link.a(), link.b(), std::move(cost), link.bytes_per_second(),
                     link.measured_at_seconds()};
}

constexpr std::pair<v1::LinkLevel, LinkLevel> kLinkLevels[] = {{v1::LINK_LEVEL_NODE, LinkLevel::kNode},
                                                               {v1::LINK_LEVEL_SITE, LinkLevel::kSite},
                                                               {v1::LINK_LEVEL_RACKS, LinkLevel::kRacks},
                                                               {v1::LINK_LEVEL_SITES, LinkLevel::kSites}};

v1::LinkClass EncodeLinkClass(const ClusterLinkClass& link) {
  v1::LinkClass encoded;
  for (const auto& [wire, level] : kLinkLevels) {
    if (level == link.level) encoded.set_level(wire);
  }
  encoded.set_a_kind(link.a_kind);
  encoded.set_b_kind(link.b_kind);
  if (link.a_site) encoded.set_a_site(*link.a_site);
  if (link.b_site) encoded.set_b_site(*link.b_site);
  SetCost(link.cost, link.cost.transfer.BytesPerSecond(), encoded);
  return encoded;
}

using PriceByKind = std::map<std::string, double>;

// InvalidArgument: a kind that is named twice, or that no device of `nodes` is of.
absl::StatusOr<PriceByKind> DecodePrices(const v1::ClusterSpec& cluster, const std::vector<v1::Node>& nodes) {
  std::set<std::string> kinds;
  for (const v1::Node& node : nodes) {
    for (const v1::Device& device : node.devices()) kinds.insert(device.kind());
  }
  PriceByKind prices;
  for (int i = 0; i < cluster.kind_prices_size(); ++i) {
    const v1::KindPrice& price = cluster.kind_prices(i);
    const std::string field = absl::StrCat("kind_prices[", i, "].kind: \"", price.kind(), "\"");
    if (!kinds.contains(price.kind())) {
      return absl::InvalidArgumentError(
          absl::StrCat(field, " is the kind of no device; there are ", absl::StrJoin(kinds, ", ")));
    }
    if (!prices.emplace(price.kind(), price.price_per_hour()).second)
      return absl::InvalidArgumentError(absl::StrCat(field, " is there twice"));
  }
  return prices;
}

ClusterDevice DecodePriced(const v1::Device& device, const PriceByKind& prices) {
  ClusterDevice decoded = DecodeClusterDevice(device);
  const auto price = prices.find(device.kind());
  if (!device.has_price_per_hour() && price != prices.end()) decoded.price_per_hour = price->second;
  return decoded;
}

namespace {

// `sites`: those of the nodes.
absl::Status CheckSites(const v1::LinkClass& link, const std::set<std::string>& sites) {
  const auto refuse = [](const char* field, const std::string& site, const std::string& why) {
    return absl::InvalidArgumentError(absl::StrCat(field, ": \"", site, "\" ", why));
  };
  for (const auto& [field, is_said, site] : {std::tuple("a_site", link.has_a_site(), link.a_site()),
                                             std::tuple("b_site", link.has_b_site(), link.b_site())}) {
    if (!is_said) continue;
    if (link.level() != v1::LINK_LEVEL_SITES)
      return refuse(field, site, "stands with another level; only links of level sites may say sites");
    if (sites.contains(site)) continue;
    std::vector<std::string> quoted;  // one may be empty
    for (const std::string& there : sites) quoted.push_back(absl::StrCat("\"", there, "\""));
    return refuse(field, site, absl::StrCat("is the site of no node; there are ", SomeNames(quoted)));
  }
  if (link.has_a_site() && link.has_b_site() && link.a_site() == link.b_site())
    return refuse("b_site", link.b_site(), "is a_site, too; links of level sites join two different ones");
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ClusterLinkClass> DecodeLinkClass(const v1::LinkClass& link) {
  v1::LinkProfile profile;
  profile.set_latency_seconds(link.latency_seconds());
  profile.set_bytes_per_second(link.bytes_per_second());
  profile.set_all_reduce_bytes_per_second(
      link.all_reduce_bytes_per_second() > 0 ? link.all_reduce_bytes_per_second() : link.bytes_per_second());
  *profile.mutable_transfer() = link.transfer();
  *profile.mutable_exchange() = link.exchange();
  *profile.mutable_all_reduce() = link.all_reduce();
  ClusterLinkClass decoded{.a_kind = link.a_kind(), .b_kind = link.b_kind()};
  if (link.has_a_site()) decoded.a_site = link.a_site();
  if (link.has_b_site()) decoded.b_site = link.b_site();
  for (const auto& [wire, level] : kLinkLevels) {
    if (wire == link.level()) decoded.level = level;
  }
  ASSIGN_OR_RETURN(decoded.cost, DecodeLink(profile));
  return decoded;
}

absl::StatusOr<Cluster> DecodeCluster(const v1::ClusterSpec& cluster) {
  Cluster decoded;
  ASSIGN_OR_RETURN(const std::vector<v1::Node> nodes, ExpandNodes(cluster));
  if (nodes.empty())
    return absl::InvalidArgumentError(
        "nodes: there are none, and no node_groups; at least one of either is needed");
  ASSIGN_OR_RETURN(const PriceByKind prices, DecodePrices(cluster, nodes));
  for (const v1::Node& node : nodes) {
    ClusterNode& named = decoded.nodes.emplace_back(
        ClusterNode{.name = node.name(), .host = node.host(), .site = node.site(), .rack = node.rack()});
    named.host_memory = {static_cast<int64_t>(node.host_memory_bytes())};
    named.network_cards = static_cast<int>(node.network_cards());
    for (const v1::Device& device : node.devices()) named.devices.push_back(DecodePriced(device, prices));
  }
  const std::set<std::string> sites = SitesOf(decoded);
  for (int i = 0; i < cluster.link_classes_size(); ++i) {
    const std::string field = absl::StrCat("link_classes[", i, "]");
    if (const absl::Status named = CheckSites(cluster.link_classes(i), sites); !named.ok())
      return Under(field, named);
    absl::StatusOr<ClusterLinkClass> link = DecodeLinkClass(cluster.link_classes(i));
    if (!link.ok()) return Under(field, link.status());
    decoded.link_classes.push_back(*std::move(link));
  }
  for (const v1::DeviceProfile& profile : cluster.profiles())
    decoded.profiles.push_back(DecodeProfile(profile));
  for (int i = 0; i < cluster.links_size(); ++i) {
    absl::StatusOr<ClusterLink> link = DecodeClusterLink(cluster.links(i));
    if (!link.ok()) return Under(absl::StrCat("links[", i, "]"), link.status());
    decoded.links.push_back(*std::move(link));
  }
  if (cluster.has_default_link()) {
    absl::StatusOr<LinkCost> link = DecodeLink(cluster.default_link());
    if (!link.ok()) return Under("default_link", link.status());
    decoded.default_link = *std::move(link);
  }
  for (const v1::HostSlowdown& slowdown : cluster.slowdowns())
    decoded.slowdowns.push_back(DecodeSlowdown(slowdown));
  return decoded;
}

v1::ClusterSpec EncodeCluster(const Cluster& cluster) {
  v1::ClusterSpec encoded;
  for (const ClusterNode& node : cluster.nodes) {
    v1::Node& named = *encoded.add_nodes();
    named.set_name(node.name);
    named.set_host(node.host);
    named.set_host_memory_bytes(node.host_memory.value);
    named.set_site(node.site);
    named.set_rack(node.rack);
    named.set_network_cards(static_cast<uint32_t>(node.network_cards));
    for (const ClusterDevice& device : node.devices) *named.add_devices() = EncodeClusterDevice(device);
  }
  for (const DeviceProfile& profile : cluster.profiles) *encoded.add_profiles() = EncodeProfile(profile);
  for (const ClusterLink& link : cluster.links) *encoded.add_links() = EncodeLink(link);
  const std::set<std::string> sites = SitesOf(cluster);
  const auto is_there = [&](const std::optional<std::string>& site) {
    return !site || sites.contains(*site);
  };
  for (const ClusterLinkClass& link : cluster.link_classes) {
    if (is_there(link.a_site) && is_there(link.b_site)) *encoded.add_link_classes() = EncodeLinkClass(link);
  }
  if (cluster.default_link) {
    *encoded.mutable_default_link() =
        EncodeLink({"any", "any", *cluster.default_link, cluster.default_link->transfer.BytesPerSecond(), 0});
  }
  for (const HostSlowdown& slowdown : cluster.slowdowns) *encoded.add_slowdowns() = EncodeSlowdown(slowdown);
  return encoded;
}

}  // namespace medley
