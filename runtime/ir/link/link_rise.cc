#include "runtime/ir/link/link_rise.h"

#include <algorithm>
#include <cstddef>

namespace medley {
namespace {

LinkRise RiseOf(const LinkModel& model) {
  LinkRise rise{0, model.BytesPerSecond()};
  size_t i = 0;
  for (; i < model.points.size() && model.points[i].seconds == model.points[0].seconds; ++i) {
    rise.level_bytes = model.points[i].bytes;
  }
  for (; i < model.points.size(); ++i) {
    rise.bytes_per_second =
        std::max(rise.bytes_per_second, (model.points[i].bytes - rise.level_bytes) /
                                            (model.points[i].seconds - model.points[0].seconds));
  }
  return rise;
}

// No time of `model` is shorter than its bytes take at this rate: no point is, so that what lies between two is not either, nor what is level
// before the first one; and beyond the last one it is the slope.
double BytesPerSecondOfWhole(const LinkModel& model) {
  double bytes_per_second = model.BytesPerSecond();
  for (const LinkPoint& point : model.points) {
    if (point.bytes > 0) bytes_per_second = std::max(bytes_per_second, point.bytes / point.seconds);
  }
  return bytes_per_second;
}

}  // namespace

void LinkRise::Cover(const LinkRise& other) {
  level_bytes = std::max(level_bytes, other.level_bytes);
  bytes_per_second = std::max(bytes_per_second, other.bytes_per_second);
}

void LinkRise::Cover(const LinkCost& link) {
  Cover(RiseOf(link.exchange));
  Cover(RiseOf(link.transfer));
  // Of fewer members than were measured sums take half as long a byte or more, and members get up to two bytes for each of the vector.
  constexpr double kMostBytesForMeasured = 4;
  for (const AllReduceTimes& times : link.all_reduce)
    Cover(LinkRise{0, kMostBytesForMeasured * BytesPerSecondOfWhole(times.seconds)});
}

}  // namespace medley
