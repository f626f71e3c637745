#pragma once
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "coordinator/cluster/cluster_view.h"
#include "proto/medley/v1/cluster.pb.h"
#include "runtime/ir/link/message_protection.h"

namespace medley {

// Whether a link that was measured so is what messages under `protection` find: it was measured with it, or goes through
// memory that both ends share, where nothing is protected.
bool HoldsUnder(MessageProtection protection, const v1::LinkProfile& measured);

// What was measured of links, by kind and class (link_pairs.h), for messages of one protection. Pure.
class LinkTable {
 public:
  // The newest of several of a kind counts. Those without a kind, from before there were kinds, are left out, and so are those
  // that do not hold under `protection`.
  explicit LinkTable(const std::vector<v1::LinkProfile>& measured,
                     MessageProtection protection = MessageProtection::kNone);
  void Add(const v1::LinkProfile& measured);

  // The link between two devices: its kind's, or that which stands for its class, with these ends, and
  // `measured_between` if others were measured for it. Nothing: its kind was not measured, nor enough of its class.
  std::optional<v1::LinkProfile> Between(const ClusterDeviceLocation& a,
                                         const ClusterDeviceLocation& b) const;
  // Calls `each` with the links of all pairs of `devices`, as far as they are known, until it returns false: there are too
  // many for a list of them.
  void ForEachAmong(const std::vector<ClusterDeviceLocation>& devices,
                    const std::function<bool(const v1::LinkProfile&)>& each) const;
  // The same with the places of the two, first < second, and what was measured, maybe between others: a pair takes some
  // nanoseconds, so that it may be done with thousands of devices.
  using EachPlace = std::function<bool(int first, int second, const v1::LinkProfile& measured)>;
  void ForEachPlaceAmong(const std::vector<ClusterDeviceLocation>& devices, const EachPlace& each) const;
  bool IsMeasured(const std::string& kind) const { return newest_.count(kind) > 0; }

  // What was measured of a class: its newest links, kMostSamples at most.
  struct Samples {
    int count = 0;
    // They differ by no more than a repeated measurement does; of many, half of them.
    bool agree = false;
    // That which stands for the class: the middle one by bandwidth if they agree, otherwise one that is slower than three
    // quarters of them, so that no plan counts on more than it gets. Null: fewer than kFewestSamples were measured.
    const v1::LinkProfile* stands = nullptr;
  };
  static constexpr int kFewestSamples = 6, kMostSamples = 48;
  Samples SamplesOf(const std::string& link_class) const;

 private:
  // What is known of the link between two devices.
  struct Found {
    const v1::LinkProfile* measured = nullptr;  // of these ends or of others; null: nothing
    const Samples* samples = nullptr;           // those for which it stands; null: it is of its own kind
  };
  using SamplesByClass = std::map<std::string, Samples>;
  Found Find(const ClusterDeviceLocation& a, const ClusterDeviceLocation& b, SamplesByClass& known) const;
  // The link as that between `a` and `b`.
  static v1::LinkProfile WithEnds(const Found& found, const ClusterDeviceLocation& a,
                                  const ClusterDeviceLocation& b);

  MessageProtection protection_;
  std::map<std::string, v1::LinkProfile> newest_;  // by kind
  std::map<std::string, std::set<std::string>> kinds_of_class_;
};

// Whether they differ by no more than repeated measurements of links that are alike.
bool AreAlike(const v1::LinkProfile& a, const v1::LinkProfile& b);

}  // namespace medley
