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

}  // namespace

void LinkRise::Cover(const LinkRise& other) {
  level_bytes = std::max(level_bytes, other.level_bytes);
  bytes_per_second = std::max(bytes_per_second, other.bytes_per_second);
}

void LinkRise::Cover(const LinkCost& link) {
  Cover(RiseOf(link.exchange));
  Cover(RiseOf(link.transfer));
}

}  // namespace medley
