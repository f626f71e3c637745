#pragma once
#include "absl/status/statusor.h"
#include "proto/medley/v1/cluster.pb.h"
#include "runtime/ir/cluster/cluster.h"
#include "runtime/ir/cluster/device_profile.h"
#include "runtime/ir/cluster/host_slowdown.h"

// What plans are made of, as messages. All must hold to their rules (runtime/wire/validate.h).
namespace medley {

// As DecodeDevice (device_codec.h), with what is found out by opening it.
ClusterDevice DecodeClusterDevice(const v1::Device& device);
v1::Device EncodeClusterDevice(const ClusterDevice& device);

// A workspace of more than 2^63 - 1 bytes is that many.
DeviceProfile DecodeProfile(const v1::DeviceProfile& profile);
v1::DeviceProfile EncodeProfile(const DeviceProfile& profile);
ProfiledTimes DecodeTimes(const v1::BlockPassTimes& times);
v1::ProfileCorrection EncodeCorrection(TimeClass times, const ProfileCorrection& correction);
v1::PredictionBasis EncodeBasis(PredictionBasis basis);

HostSlowdown DecodeSlowdown(const v1::HostSlowdown& slowdown);
v1::HostSlowdown EncodeSlowdown(const HostSlowdown& slowdown);

// Errors as DecodeLink (link_codec.h).
absl::StatusOr<ClusterLink> DecodeClusterLink(const v1::LinkProfile& link);

// Whether nodes are alive, who uses a device, how a link was measured and live_errors, of which no plan is made, are left out.
// InvalidArgument: a link's points make no sense: "links[3].transfer[1]...", "default_link..."; a class of links names a site
// where no node is, or the same one twice, or is not of level sites: "link_classes[0].a_site..."; a price is of a kind that there is none
// of, or that has one already: "kind_prices[0].kind..."; those of ExpandNodes (node_groups.h); there is no node.
absl::StatusOr<Cluster> DecodeCluster(const v1::ClusterSpec& cluster);
// What is decoded again is equal, but for classes of links of sites where no node is: they join nothing, and are left out. Links are
// said by their points.
v1::ClusterSpec EncodeCluster(const Cluster& cluster);

}  // namespace medley
