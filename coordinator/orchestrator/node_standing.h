#pragma once
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/time/time.h"

namespace medley {

// Which nodes are not to be used although they may hold a lease, each for a reason that ends in a way of its own:
//   suspect   its agent did not answer; until it is heard of again, for what was under way before that says nothing.
//   drained   a user said so; until one says otherwise, whatever becomes of the node, and of the coordinator, whose store keeps it.
//   leaving   its agent said that it is about to end; until it comes again.
// A node can be all of them at once. Not thread-safe.
class NodeStanding {
 public:
  bool IsUsable(const std::string& node) const {
    return !IsSuspect(node) && !IsDrained(node) && !leaving_.contains(node);
  }

  bool IsSuspect(const std::string& node) const { return suspect_.contains(node); }
  void Suspect(const std::string& node, absl::Time since) { suspect_[node] = since; }
  // Its lease was renewed at that time.
  void Renewed(const std::string& node, absl::Time at) {
    const auto suspect = suspect_.find(node);
    // What came before it did not answer says nothing.
    if (suspect != suspect_.end() && at > suspect->second) suspect_.erase(suspect);
  }
  // It has to register before it is used again, or has done so.
  void SuspectNoMore(const std::string& node) { suspect_.erase(node); }

  bool IsDrained(const std::string& node) const { return drained_.contains(node); }
  const std::set<std::string>& drained() const { return drained_; }
  void SetDrained(std::set<std::string> nodes) { drained_ = std::move(nodes); }
  // Whether it was not.
  bool Drain(const std::string& node) { return drained_.insert(node).second; }
  void Undrain(const std::string& node) { drained_.erase(node); }

  // Whether it was not.
  bool SetLeaving(const std::string& node) { return leaving_.insert(node).second; }
  void LeaveNoMore(const std::string& node) { leaving_.erase(node); }

 private:
  std::map<std::string, absl::Time> suspect_;  // since when
  std::set<std::string> drained_, leaving_;
};

}  // namespace medley
