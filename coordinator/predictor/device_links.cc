#include "coordinator/predictor/device_links.h"

#include <numeric>
#include <utility>

namespace medley {

DeviceLinks::DeviceLinks(int devices, const LinkCost& all)
    : ends_(devices), end_of_device_(devices), costs_(static_cast<size_t>(devices) * devices, all) {
  std::iota(end_of_device_.begin(), end_of_device_.end(), 0);
}

DeviceLinks::DeviceLinks(std::vector<int> end_of_device, std::vector<int> host_of_device, int ends)
    : ends_(ends),
      end_of_device_(std::move(end_of_device)),
      host_of_device_(std::move(host_of_device)),
      costs_(2 * static_cast<size_t>(ends) * ends) {}

bool DeviceLinks::Interchangeable(int a, int b) const {
  const auto same_host = [&](int d, int e) {
    return !host_of_device_.empty() && host_of_device_[d] == host_of_device_[e];
  };
  if (EndOf(a) == EndOf(b) && same_host(a, b)) return true;
  for (int d = 0; d < devices(); ++d) {
    if (d == a || d == b) continue;
    // Of ends that are the same only who shares a host with one of the two can tell them apart.
    if (EndOf(a) == EndOf(b) && same_host(a, d) == same_host(b, d)) continue;
    if (!(Between(a, d) == Between(b, d))) return false;
  }
  return true;
}

DeviceLinks DeviceLinks::Among(const std::vector<int>& devices) const {
  DeviceLinks links;
  std::vector<int> number(ends_, -1), ends;
  for (const int d : devices) {
    int& end = number[EndOf(d)];
    if (end < 0) {
      end = static_cast<int>(ends.size());
      ends.push_back(EndOf(d));
    }
    links.end_of_device_.push_back(end);
    if (!host_of_device_.empty()) links.host_of_device_.push_back(host_of_device_[d]);
  }
  links.ends_ = static_cast<int>(ends.size());
  const size_t square = ends.size() * ends.size();
  links.costs_.resize(host_of_device_.empty() ? square : 2 * square);
  for (size_t a = 0; a < ends.size(); ++a) {
    for (size_t b = a; b < ends.size(); ++b) {
      const size_t at = a * ends.size() + b;
      links.costs_[at] = costs_[At(ends[a], ends[b])];
      if (!host_of_device_.empty()) links.costs_[square + at] = costs_[ends_ * ends_ + At(ends[a], ends[b])];
    }
  }
  return links;
}

}  // namespace medley
