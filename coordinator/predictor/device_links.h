#pragma once
#include <vector>

#include "runtime/ir/link/link_model.h"

namespace medley {

// The links between the devices of a problem, both ways alike. Devices with the same *end* reach any device of
// another host alike, and any of their own host, so a cluster of thousands of devices has as many costs as it has
// pairs of ends. Devices that differ in every figure have an end each.
class DeviceLinks {
 public:
  DeviceLinks() = default;
  // Each of `devices` with an end of its own, all joined by `all`.
  explicit DeviceLinks(int devices, const LinkCost& all = {});
  // By device: its end, 0 .. `ends` - 1, and its host. Links take no time until they are set.
  DeviceLinks(std::vector<int> end_of_device, std::vector<int> host_of_device, int ends);

  int devices() const { return static_cast<int>(end_of_device_.size()); }
  int ends() const { return ends_; }
  int EndOf(int device) const { return end_of_device_[device]; }
  const LinkCost& Between(int a, int b) const { return costs_[IndexOf(a, b)]; }

  // Of two devices that have ends of their own.
  void Set(int a, int b, const LinkCost& cost) { costs_[IndexOf(a, b)] = cost; }
  LinkCost& Mutable(int a, int b) { return costs_[IndexOf(a, b)]; }
  void SetBetweenHosts(int end_a, int end_b, const LinkCost& cost) { costs_[At(end_a, end_b)] = cost; }
  void SetWithinHosts(int end_a, int end_b, const LinkCost& cost) {
    costs_[ends_ * ends_ + At(end_a, end_b)] = cost;
  }
  // Every cost there is, whether two devices have it or not.
  std::vector<LinkCost>& each() { return costs_; }
  const std::vector<LinkCost>& each() const { return costs_; }

  // Whether `a` and `b` reach every other device alike.
  bool Interchangeable(int a, int b) const;
  // Of these devices alone, in this order.
  DeviceLinks Among(const std::vector<int>& devices) const;
  // The same links, where devices of one end have an end together only if they are of one part, so that links of a part can be changed
  // by themselves. `part_of_device`: of each device, any numbers.
  DeviceLinks Apart(const std::vector<int>& part_of_device) const;

 private:
  // With other ends; `known_as`: of each of these, which it was here.
  DeviceLinks WithEnds(const std::vector<int>& known_as, std::vector<int> end_of_device,
                       std::vector<int> host_of_device) const;
  int At(int end_a, int end_b) const { return end_a < end_b ? end_a * ends_ + end_b : end_b * ends_ + end_a; }
  int IndexOf(int a, int b) const {
    const bool within = !host_of_device_.empty() && host_of_device_[a] == host_of_device_[b];
    return At(end_of_device_[a], end_of_device_[b]) + (within ? ends_ * ends_ : 0);
  }

  int ends_ = 0;
  std::vector<int> end_of_device_;
  std::vector<int> host_of_device_;  // empty: each alone on its own
  std::vector<LinkCost> costs_;      // between hosts and then, where there are any, within them
};

}  // namespace medley
