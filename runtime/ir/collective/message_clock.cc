#include "runtime/ir/collective/message_clock.h"

#include <algorithm>
#include <map>

#include "runtime/ir/collective/chunk_size.h"

namespace medley {

namespace {

// Equal numbers stay equal, and begin at 0.
std::vector<int> Numbered(const std::vector<int>& numbers) {
  std::map<int, int> known;
  std::vector<int> numbered;
  for (const int number : numbers)
    numbered.push_back(known.emplace(number, static_cast<int>(known.size())).first->second);
  return numbered;
}

}  // namespace

MessageClock::MessageClock(const CollectiveProblem& problem)
    : problem_(problem), boundaries_(BoundariesOf(problem)) {
  out_.free.resize(problem.members * (boundaries_.size() + 1));
  const std::vector<int>& cards = problem.cards_of_member;
  if (std::any_of(cards.begin(), cards.end(), [](int count) { return count > 0; })) {
    host_ = Numbered(problem.host_of_member);
    site_ = Numbered(problem.site_of_member);
    out_.card_free.resize(problem.members);
    std::vector<int> members_of_host(problem.members, 0);
    for (const int host : host_) ++members_of_host[host];
    // Where there is a card for each they need not be told apart.
    for (int member = 0; member < problem.members; ++member) {
      if (cards[member] < members_of_host[host_[member]]) out_.card_free[host_[member]].resize(cards[member]);
    }
    out_.network_free.resize(problem.members);
    out_.site_free.resize(problem.members);
  }
  in_ = out_;
}

MessageClock::Cost MessageClock::CostOf(int from, int to, int64_t elements, bool exchanged) const {
  const LinkCost* const link = problem_.Link(from, to);
  if (link == nullptr) return {};
  const LinkModel& model = exchanged ? link->exchange : link->transfer;
  const double bytes = problem_.wire_bytes_per_element * static_cast<double>(elements);
  const double whole = model.Seconds(bytes);
  const int64_t chunks = elements > 0 ? ChunksOf(elements) : 1;
  const double chunk = chunks == 1 ? whole : model.Seconds(bytes / static_cast<double>(chunks));
  return {chunk, whole, whole - std::min(whole, model.LatencySeconds())};
}

std::vector<double>* MessageClock::Take(Ways& ways, int member, int other, Taken& taken) const {
  if (HasCards(member) && HasCards(other)) {
    if (host_[member] == host_[other]) {
      taken.push_back(&ways.free[member]);
      return nullptr;
    }
    taken.push_back(&ways.network_free[member]);
    if (!site_.empty() && site_[member] != site_[other]) taken.push_back(&ways.site_free[site_[member]]);
    std::vector<double>& cards = ways.card_free[host_[member]];
    return cards.empty() ? nullptr : &cards;
  }
  size_t way = member;
  for (size_t level = boundaries_.size(); level > 0; --level) {  // the outermost that lies between
    const Boundary& boundary = boundaries_[level - 1];
    if (boundary[member] == boundary[other]) continue;
    way = level * problem_.members + boundary[member];
    break;
  }
  taken.push_back(&ways.free[way]);
  return nullptr;
}

MessageClock::Times MessageClock::Send(int from, int to, const Cost& cost, const Times& ready) {
  Taken taken;
  std::vector<double>* const cards[] = {Take(out_, from, to, taken), Take(in_, to, from, taken)};
  double start = ready.first_seconds;
  for (const double* free : taken) start = std::max(start, *free);
  for (std::vector<double>* of_host : cards) {
    if (of_host == nullptr) continue;
    // The one that has been free for the shortest time: who comes earlier finds the others.
    double* chosen = &of_host->front();
    for (double& free : *of_host) {
      const bool fits = free <= start, chosen_fits = *chosen <= start;
      if (fits != chosen_fits ? fits : fits ? free > *chosen : free < *chosen) chosen = &free;
    }
    start = std::max(start, *chosen);
    taken.push_back(chosen);
  }
  for (double* free : taken) *free = start + cost.occupied_seconds;
  return {start + cost.chunk_seconds,
          std::max(start + cost.whole_seconds, ready.last_seconds + cost.chunk_seconds)};
}

}  // namespace medley
