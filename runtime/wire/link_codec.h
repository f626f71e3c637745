#pragma once
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "proto/medley/v1/cluster.pb.h"
#include "runtime/ir/link/link_model.h"

namespace medley {

// What a link costs, by size. A profile without points is a line, as its comments say. `link` must hold to
// its rules. InvalidArgument: points that are not ascending, or whose times fall, or numbers of members that do not ascend; names the
// field and the place.
absl::StatusOr<LinkCost> DecodeLink(const v1::LinkProfile& link);

// The points of a profile's transfer or exchange.
google::protobuf::RepeatedPtrField<v1::LinkPoint> EncodeLinkModel(const LinkModel& model);

google::protobuf::RepeatedPtrField<v1::AllReduceTimes> EncodeAllReduceTimes(
    absl::Span<const AllReduceTimes> times);

}  // namespace medley
