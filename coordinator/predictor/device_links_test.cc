#include "coordinator/predictor/device_links.h"

#include <catch2/catch.hpp>

namespace medley {
namespace {

LinkCost Rate(double bytes_per_second) {
  return {LinkModel::Line(0, bytes_per_second), LinkModel::Line(0, bytes_per_second)};
}

TEST_CASE(
    "devices of one end that are told apart keep their links, and those of a part change by themselves") {
  const LinkCost within = Rate(1e9), between = Rate(1e8), faster = Rate(2e8);
  // Three hosts, the first of two devices.
  DeviceLinks links({0, 0, 0, 0}, {0, 0, 1, 2}, 1);
  links.SetWithinHosts(0, 0, within);
  links.SetBetweenHosts(0, 0, between);
  DeviceLinks apart = links.Apart({7, 7, -1, 7});
  CHECK(apart.devices() == 4);
  CHECK(apart.ends() == 2);
  CHECK(apart.EndOf(0) == apart.EndOf(3));
  CHECK(apart.EndOf(0) != apart.EndOf(2));
  for (int a = 0; a < 4; ++a) {
    for (int b = 0; b < 4; ++b) {
      if (a != b) CHECK(apart.Between(a, b) == links.Between(a, b));
    }
  }
  apart.Mutable(2, 0) = faster;
  for (const int other : {0, 1, 3}) CHECK(apart.Between(other, 2) == faster);
  CHECK(apart.Between(0, 1) == within);
  CHECK(apart.Between(0, 3) == between);
  CHECK(links.Between(0, 2) == between);
}

TEST_CASE("links of devices with ends of their own are as they were, however these are told apart") {
  DeviceLinks links(3);
  links.Set(0, 1, Rate(1));
  links.Set(0, 2, Rate(2));
  links.Set(1, 2, Rate(3));
  const DeviceLinks apart = links.Apart({0, 0, 1});
  CHECK(apart.ends() == 3);
  CHECK(apart.Between(1, 0) == Rate(1));
  CHECK(apart.Between(2, 0) == Rate(2));
  CHECK(apart.Between(2, 1) == Rate(3));
}

}  // namespace
}  // namespace medley
