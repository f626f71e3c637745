#include "runtime/wire/link_codec.h"

#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

absl::StatusOr<LinkModel> DecodePoints(const google::protobuf::RepeatedPtrField<v1::LinkPoint>& points,
                                       const LinkModel& line, const char* field) {
  if (points.empty()) return line;
  LinkModel model;
  for (const v1::LinkPoint& point : points) model.points.push_back({point.bytes(), point.seconds()});
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

}  // namespace medley
