#pragma once
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "coordinator/predictor/cost_model.h"

namespace medley {

// What sums of gradients take of the network cards of hosts while they run. Sums that want more than all cards of a host
// slow each other down: of one that takes half of them by itself, two go side by side as fast, and three two thirds as fast.
//
// All of a vector that is summed over H hosts comes into each of them and leaves it 2 (H - 1) / H times, as in a ring. A
// card carries as many bytes a second as the fastest link from its host to another one.
class CardUse {
 public:
  // Keeps nothing of `problem`.
  explicit CardUse(const PlanningProblem& problem);

  // The hosts, numbered from 0, of which several devices share cards that are known; -1: it is on another one.
  int HostOf(int device) const { return host_[device]; }
  int hosts() const { return static_cast<int>(bytes_per_second_.size()); }

  // Of all cards of a host, each way.
  double BytesPerSecond(int host) const { return bytes_per_second_[host]; }
  // Of the cards of a host, what a sum of `bytes` over so many hosts takes that is over in `seconds`: at most all, kAllCards.
  int64_t Part(int host, int hosts, double bytes, double seconds) const;
  // How many times as long sums take on a host of whose cards they want so much in all.
  static double Slowdown(int64_t wanted) {
    return wanted > kAllCards ? static_cast<double>(wanted) / kAllCards : 1;
  }
  static constexpr int64_t kAllCards = int64_t{1} << 20;

 private:
  std::vector<int> host_;                 // of each device
  std::vector<double> bytes_per_second_;  // of all cards of a host, each way
};

// Of the cards of one host (CardUse::Part).
struct CardPart {
  int host = 0;
  int64_t part = 0;
};

// What the sums that run at some time want of each host's cards.
class CardsWanted {
 public:
  explicit CardsWanted(int hosts = 0) : wanted_(hosts, 0) {}
  // `times`: 1 as one begins, and -1 as it ends.
  void Change(absl::Span<const CardPart> parts, int times);
  // Of one of them: that of the slowest of its hosts.
  double Slowdown(absl::Span<const CardPart> parts) const;

 private:
  std::vector<int64_t> wanted_;
};

}  // namespace medley
