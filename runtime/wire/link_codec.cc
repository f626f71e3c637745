#include "runtime/wire/link_codec.h"

#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"
#include "runtime/ir/link/all_reduce_times.h"

namespace medley {
namespace {

LinkModel ModelOf(const google::protobuf::RepeatedPtrField<v1::LinkPoint>& points) {
  LinkModel model;
  for (const v1::LinkPoint& point : points) model.points.push_back({point.bytes(), point.seconds()});
  return model;
}

absl::StatusOr<LinkModel> DecodePoints(const google::protobuf::RepeatedPtrField<v1::LinkPoint>& points,
                                       const LinkModel& line, const char* field) {
  if (points.empty()) return line;
  LinkModel model = ModelOf(points);
  const absl::Status sound = CheckLinkModel(model);
  if (!sound.ok()) return absl::InvalidArgumentError(absl::StrCat(field, sound.message()));
  return model;
}

}  // namespace

absl::StatusOr<LinkCost> DecodeLink(const v1::LinkProfile& link) {
  LinkCost cost;
  ASSIGN_OR_RETURN(
      cost.transfer,
      DecodePoints(link.transfer(), LinkModel::Line(link.latency_seconds(), link.bytes_per_second()),
                   "transfer"));
  ASSIGN_OR_RETURN(
      cost.exchange,
      DecodePoints(link.exchange(),
                   LinkModel::Line(link.latency_seconds(), link.all_reduce_bytes_per_second()), "exchange"));
  for (const v1::AllReduceTimes& times : link.all_reduce())
    cost.all_reduce.push_back({static_cast<int>(times.members()), ModelOf(times.points())});
  const absl::Status sound = CheckAllReduceTimes(cost.all_reduce);
  if (!sound.ok()) return absl::InvalidArgumentError(absl::StrCat("all_reduce", sound.message()));
  return cost;
}

google::protobuf::RepeatedPtrField<v1::LinkPoint> EncodeLinkModel(const LinkModel& model) {
  google::protobuf::RepeatedPtrField<v1::LinkPoint> points;
  for (const LinkPoint& point : model.points) {
    v1::LinkPoint& encoded = *points.Add();
    encoded.set_bytes(point.bytes);
    encoded.set_seconds(point.seconds);
  }
  return points;
}

google::protobuf::RepeatedPtrField<v1::AllReduceTimes> EncodeAllReduceTimes(
    absl::Span<const AllReduceTimes> times) {
  google::protobuf::RepeatedPtrField<v1::AllReduceTimes> all;
  for (const AllReduceTimes& of : times) {
    v1::AllReduceTimes& encoded = *all.Add();
    encoded.set_members(static_cast<uint32_t>(of.members));
    *encoded.mutable_points() = EncodeLinkModel(of.seconds);
  }
  return all;
}

}  // namespace medley
