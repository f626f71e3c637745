#pragma once
#include <set>
#include <string>
#include <utility>

#include "absl/time/time.h"

namespace medley {

// Whether the nodes that are to be expected have come, before which no job is planned that may use any: what starts on the first node of
// a rack that is switched on has a bad plan. Nodes come one after another, so it is waited until none has for a while (`settle`). After a
// start of the coordinator those are waited for, too, that were there before it: they hear of it within a lease, and who has not come by
// then has gone. Not thread-safe.
class NodeArrivals {
 public:
  // `began`: when the coordinator did.
  NodeArrivals(absl::Duration settle, absl::Time began) : settle_(settle), began_(began) {}

  // `nodes` were there before, and renewed their leases within `lease`.
  void Await(std::set<std::string> nodes, absl::Duration lease) {
    awaited_ = std::move(nodes);
    lease_ = lease;
  }
  // It has come, or need not.
  void AwaitNoMore(const std::string& node) { awaited_.erase(node); }
  // A node came that was not there before.
  void NewNodeCame(absl::Time now) { last_news_ = now; }

  // Who was there before and has not come by now has gone.
  bool AllHadTime(absl::Time now) const {
    constexpr absl::Duration kMargin = absl::Seconds(1);
    return now >= began_ + lease_ + kMargin;
  }
  bool Settled(absl::Time now) const {
    return (awaited_.empty() || AllHadTime(now)) && now >= last_news_ + settle_;
  }
  absl::Time began() const { return began_; }

 private:
  const absl::Duration settle_;
  const absl::Time began_;
  std::set<std::string> awaited_;
  absl::Duration lease_;
  absl::Time last_news_ = absl::InfinitePast();
};

}  // namespace medley
