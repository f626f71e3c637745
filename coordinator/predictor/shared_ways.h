#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace medley {

struct PlanningProblem;

// The levels of a cluster's tree whose places share one way out and one way in each, innermost first.
enum class WayLevel : uint8_t { kHost, kRack, kSite };
inline constexpr std::array kWayLevels = {WayLevel::kHost, WayLevel::kRack, WayLevel::kSite};

template <typename Value>
class ByLevel {
 public:
  Value& operator[](WayLevel level) { return values_[static_cast<size_t>(level)]; }
  const Value& operator[](WayLevel level) const { return values_[static_cast<size_t>(level)]; }
  friend bool operator==(const ByLevel&, const ByLevel&) = default;

 private:
  std::array<Value, kWayLevels.size()> values_{};
};

// By device: its host, rack and site, each numbered from 0; -1: it is not known to share a way of that level. Hosts do where their cards
// are known, sites where there are several, and racks where some site has several.
std::vector<ByLevel<int>> PlacesOf(const PlanningProblem& problem);

// Of one way, what a message or a sum takes of it.
struct WayPart {
  int way = 0;
  int64_t part = 0;  // of SharedWays::kAll
};

// Of the messages of a device's stage with one neighbour, how many like them go at the same moments that share the way of its place of a
// level, themselves too; 0: as 1.
using AtOnce = ByLevel<double>;
struct MessagesAtOnce {
  AtOnce before, behind;  // with the stage before it, and with the one behind
};

// What messages between stages and sums of gradients take, while they run, of the ways that devices share: the network cards of
// a host whose cards are known, and the way from a rack or a site to others; each out and in. What wants more than all of a way is slowed
// down alike: of sums that take half of a host's cards by themselves two go side by side as fast as one, and three two thirds as fast.
//
// A card carries as many bytes a second as the fastest link from its host to another one, the way from a rack or a site as many as the
// fastest link from there to another one. What goes between sites leaves a rack, too, and takes both ways; a site's only rack has none of its
// own, though it counts among those that a vector is summed over. A message takes what its link
// carries. All of a vector that is summed over H hosts comes into each of them and leaves it 2 (H - 1) / H times, as in a ring, and
// likewise of racks and sites.
class SharedWays {
 public:
  // Keeps nothing of `problem`.
  explicit SharedWays(const PlanningProblem& problem);
  // Of these devices alone, in this order, with as many messages at once as before, or, if that is not empty, with so many.
  SharedWays Among(const std::vector<int>& devices, const std::vector<MessagesAtOnce>& at_once = {}) const;

  int count() const { return WayOf(WayLevel::kSite, places(WayLevel::kSite), false); }
  // Adds what a message takes, to the stage behind or before, by a link that carries so much; nothing within a host.
  void AddMessage(int from, int to, bool to_behind, double bytes_per_second,
                  std::vector<WayPart>& parts) const;
  // How many times as long a message takes while so many like it go at its ends.
  double SlowdownOfMessage(int from, const AtOnce& sent, int to, const AtOnce& received,
                           double bytes_per_second) const;
  // Adds what a sum of `bytes` takes that is over in `seconds` by itself.
  void AddSum(absl::Span<const int> devices, double bytes, double seconds, std::vector<WayPart>& parts) const;

  // Numbered from 0; -1: it is not known to share a way.
  int PlaceOf(WayLevel level, int device) const { return ends_[device].places[level]; }
  int places(WayLevel level) const { return static_cast<int>(rates_[level].size()); }
  int WayOf(WayLevel level, int place, bool in) const {
    for (const WayLevel inner : kWayLevels) place += inner < level ? places(inner) : 0;
    return 2 * place + (in ? 1 : 0);
  }
  // Each way, of sums; 0: there is none.
  double BytesPerSecondOf(WayLevel level, int place) const {
    return rates_[level][place].summing_bytes_per_second;
  }
  // Whether ways between the same racks and sites carry as much.
  bool HasWaysBetweenHostsOf(const SharedWays& other) const {
    return rates_[WayLevel::kRack] == other.rates_[WayLevel::kRack] &&
           rates_[WayLevel::kSite] == other.rates_[WayLevel::kSite];
  }
  // Of a way that carries so much, what a sum over so many places of its level takes: at most all.
  static int64_t PartOfSum(double bytes_per_second, int members, double bytes, double seconds);

  // How many times as long takes what goes by a way of which so much is wanted in all.
  static double Slowdown(int64_t wanted) { return wanted > kAll ? static_cast<double>(wanted) / kAll : 1; }
  static constexpr int64_t kAll = int64_t{1} << 20;

 private:
  // Each way.
  struct Rate {
    double sending_bytes_per_second = 0, summing_bytes_per_second = 0;
    friend bool operator==(const Rate&, const Rate&) = default;
  };
  struct End {
    ByLevel<int> places;
    MessagesAtOnce at_once;
  };
  SharedWays() = default;
  // Calls `visit` with each way that a message takes, and the part of it.
  template <typename Visit>
  void ForEachWay(int from, const AtOnce& sent, int to, const AtOnce& received, double bytes_per_second,
                  const Visit& visit) const;

  ByLevel<std::vector<Rate>> rates_;  // of each place
  std::vector<End> ends_;             // of each device
};

// What all that runs at some time wants of each way.
class WaysWanted {
 public:
  explicit WaysWanted(int ways = 0) : wanted_(ways, 0) {}
  // `times`: 1 as one begins, and -1 as it ends.
  void Change(absl::Span<const WayPart> parts, int times);
  // Of one of them: that of the slowest of its ways.
  double Slowdown(absl::Span<const WayPart> parts) const;

 private:
  std::vector<int64_t> wanted_;
};

}  // namespace medley
