#include "coordinator/orchestrator/link_table.h"

#include "absl/strings/str_cat.h"
#include "coordinator/orchestrator/link_pairs.h"

namespace medley {

std::string FullName(const ClusterDeviceLocation& device) {
  return absl::StrCat(device.node, "/", device.device.description.name);
}

LinkTable::LinkTable(const std::vector<v1::LinkProfile>& measured) {
  for (const v1::LinkProfile& link : measured) {
    if (link.kind().empty()) continue;
    const auto [present, is_new] = newest_.emplace(link.kind(), link);
    if (!is_new && link.measured_at_seconds() > present->second.measured_at_seconds()) present->second = link;
  }
}

std::optional<v1::LinkProfile> LinkTable::Between(const ClusterDeviceLocation& a,
                                                  const ClusterDeviceLocation& b) const {
  const auto found = newest_.find(LinkKind(a, b));
  if (found == newest_.end()) return std::nullopt;
  v1::LinkProfile link = found->second;
  const std::string first = FullName(a), second = FullName(b);
  const bool is_itself =
      (link.a() == first && link.b() == second) || (link.a() == second && link.b() == first);
  if (!is_itself) link.set_measured_between(absl::StrCat(link.a(), " - ", link.b()));
  link.set_a(first);
  link.set_b(second);
  return link;
}

std::vector<v1::LinkProfile> LinkTable::Among(const std::vector<ClusterDeviceLocation>& devices) const {
  std::vector<v1::LinkProfile> links;
  for (size_t second = 1; second < devices.size(); ++second) {
    for (size_t first = 0; first < second; ++first) {
      if (std::optional<v1::LinkProfile> link = Between(devices[first], devices[second]))
        links.push_back(*std::move(link));
    }
  }
  return links;
}

std::vector<std::string> LinkTable::kinds() const {
  std::vector<std::string> kinds;
  for (const auto& [kind, link] : newest_) kinds.push_back(kind);
  return kinds;
}

}  // namespace medley
