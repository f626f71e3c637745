#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/cluster/cluster_view.h"
#include "proto/medley/v1/cluster.pb.h"

namespace medley {

// What was measured of links, by kind (link_pairs.h). Pure.
class LinkTable {
 public:
  // The newest of several of a kind counts. Those without a kind, from before there were kinds, are left out.
  explicit LinkTable(const std::vector<v1::LinkProfile>& measured);

  // The link between two devices: its kind's, with these ends, and `measured_between` if others were measured
  // for it. Nothing: its kind was not measured.
  std::optional<v1::LinkProfile> Between(const ClusterDeviceLocation& a,
                                         const ClusterDeviceLocation& b) const;
  // The links of all pairs of `devices`, as far as they are known.
  std::vector<v1::LinkProfile> Among(const std::vector<ClusterDeviceLocation>& devices) const;
  std::vector<std::string> kinds() const;

 private:
  std::map<std::string, v1::LinkProfile> newest_;  // by kind
};

// "node/device"
std::string FullName(const ClusterDeviceLocation& device);

}  // namespace medley
