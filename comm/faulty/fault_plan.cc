#include "comm/faulty/fault_plan.h"

#include <algorithm>
#include <random>

namespace medley {

FaultPlan::FaultPlan(const FaultOptions& options, int rank) : options_(options), rank_(rank) {}

FaultPlan::Verdict FaultPlan::Next(Direction direction, int peer, uint64_t bytes, absl::Time now) {
  ++operations_;
  if (options_.vanish_at_operation.has_value() && operations_ >= *options_.vanish_at_operation) {
    return {Verdict::Kind::kVanish};
  }
  const auto found = options_.by_peer.find(peer);
  const LinkFaults& faults = found == options_.by_peer.end() ? options_.every_link : found->second;
  Link& link = links_[peer];
  const uint64_t number = link.operations++;
  if (faults.stall_after_operations.has_value() && number >= *faults.stall_after_operations) {
    return {Verdict::Kind::kStall};
  }
  Verdict verdict;
  if (faults.bytes_per_second.has_value() && direction == Direction::kSend) {
    link.busy_until =
        std::max(link.busy_until, now) + absl::Seconds(static_cast<double>(bytes) / *faults.bytes_per_second);
    verdict.due = link.busy_until;
  }
  if (faults.maximum_delay > absl::ZeroDuration()) {
    // The delay is drawn from the operation's own number, not from one stream for all peers, whose threads
    // may come in any order.
    std::seed_seq seeds{static_cast<uint32_t>(options_.seed), static_cast<uint32_t>(options_.seed >> 32),
                        static_cast<uint32_t>(rank_),         static_cast<uint32_t>(peer),
                        static_cast<uint32_t>(number),        static_cast<uint32_t>(number >> 32)};
    std::mt19937 random(seeds);
    const double share = static_cast<double>(random()) / static_cast<double>(std::mt19937::max());
    verdict.due = std::max(verdict.due, now) + faults.maximum_delay * share;
  }
  return verdict;
}

}  // namespace medley
