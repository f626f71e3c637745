#pragma once

namespace medley {

// What a copy between a device's memory and pinned host memory takes, in one direction.
struct CopyCost {
  double latency_seconds = 0;
  double bytes_per_second = 1e15;  // more than 0

  double Seconds(double bytes) const { return latency_seconds + bytes / bytes_per_second; }
  friend bool operator==(const CopyCost&, const CopyCost&) = default;
};

struct CopyCosts {
  CopyCost to_host, to_device;
  friend bool operator==(const CopyCosts&, const CopyCosts&) = default;
};

}  // namespace medley
