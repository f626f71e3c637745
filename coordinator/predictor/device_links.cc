#include "coordinator/predictor/device_links.h"

#include <map>
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
  std::vector<int> number(ends_, -1), ends, end_of_device, host_of_device;
  for (const int d : devices) {
    int& end = number[EndOf(d)];
    if (end < 0) {
      end = static_cast<int>(ends.size());
      ends.push_back(EndOf(d));
    }
    end_of_device.push_back(end);
    if (!host_of_device_.empty()) host_of_device.push_back(host_of_device_[d]);
  }
  return WithEnds(ends, std::move(end_of_device), std::move(host_of_device));
}

DeviceLinks DeviceLinks::Apart(const std::vector<int>& part_of_device) const {
  std::map<std::pair<int, int>, int> numbers;  // by end and part
  std::vector<int> ends, end_of_device;
  for (int d = 0; d < devices(); ++d) {
    const auto [number, is_new] =
        numbers.try_emplace({EndOf(d), part_of_device[d]}, static_cast<int>(ends.size()));
    if (is_new) ends.push_back(EndOf(d));
    end_of_device.push_back(number->second);
  }
  return WithEnds(ends, std::move(end_of_device), host_of_device_);
}

DeviceLinks DeviceLinks::WithEnds(const std::vector<int>& known_as, std::vector<int> end_of_device,
                                  std::vector<int> host_of_device) const {
  DeviceLinks links;
  links.ends_ = static_cast<int>(known_as.size());
  links.end_of_device_ = std::move(end_of_device);
  links.host_of_device_ = std::move(host_of_device);
  const size_t count = known_as.size(), square = count * count;
  links.costs_.resize(host_of_device_.empty() ? square : 2 * square);
  for (size_t a = 0; a < count; ++a) {
    for (size_t b = a; b < count; ++b) {
      const int at = At(known_as[a], known_as[b]);
      links.costs_[a * count + b] = costs_[at];
      if (!host_of_device_.empty()) links.costs_[square + a * count + b] = costs_[ends_ * ends_ + at];
    }
  }
  return links;
}

}  // namespace medley
