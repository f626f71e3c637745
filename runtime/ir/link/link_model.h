#pragma once
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

// What a link does, as a pure function of the size of a message.
namespace medley {

struct LinkPoint {
  double bytes = 0;
  double seconds = 0;
  friend bool operator==(const LinkPoint&, const LinkPoint&) = default;
};

// Seconds by bytes: straight lines between `points` (ascending in bytes, seconds not falling). Below the
// first point its seconds; beyond the last one the slope of the last line, or where that is level of a line
// from the last point that takes less; or of a line from the origin if there is one point alone (level if that
// one is at 0 bytes). No points: takes no time.
struct LinkModel {
  std::vector<LinkPoint> points;

  double Seconds(double bytes) const;
  double LatencySeconds() const { return Seconds(0); }
  // Beyond the last point; infinite where all points are level.
  double BytesPerSecond() const;
  friend bool operator==(const LinkModel&, const LinkModel&) = default;

  // latency_seconds + bytes / bytes_per_second; the rate may be infinite.
  static LinkModel Line(double latency_seconds, double bytes_per_second);
};

// The fewest points (at most `most`, 1 or more) whose lines pass within `tolerance` (relative) of every
// sample, monotone; where `most` do not suffice, those with the least greatest error. Points lie on samples,
// the last on the largest; of equally few those with the least squares. Samples: any order, several of one
// size count by their median, those that are negative or not finite do not; where they fall, the means of
// neighbours that fall stand for them. Pure; cubic in the number of sizes.
LinkModel FitLinkModel(absl::Span<const LinkPoint> samples, double tolerance, int most);

// The greatest relative error of `model` over the samples, each by itself.
double GreatestRelativeError(const LinkModel& model, absl::Span<const LinkPoint> samples);

// InvalidArgument: not ascending, negative, falling or not finite; "[2].seconds: ..." names the point, to be
// put behind the name of the field.
absl::Status CheckLinkModel(const LinkModel& model);

// What sums by a library of the devices were measured to take, over so many members.
struct AllReduceTimes {
  int members = 2;
  LinkModel seconds;  // by the bytes of the vector that all sum
  friend bool operator==(const AllReduceTimes&, const AllReduceTimes&) = default;
};

// One way between two devices, both ways alike.
struct LinkCost {
  LinkModel transfer;  // a message one way, nothing going back
  // Each end sends so many bytes and adds what comes to a float vector: a round of an all-reduce.
  LinkModel exchange;
  // Of groups whose members all reach each other by such links; ascending in members. Empty: not measured.
  std::vector<AllReduceTimes> all_reduce;
  friend bool operator==(const LinkCost&, const LinkCost&) = default;
};

}  // namespace medley
