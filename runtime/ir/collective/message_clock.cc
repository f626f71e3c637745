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
    for (const std::vector<int>& of_level : problem.places_of_members) places_.push_back(Numbered(of_level));
    out_.card_free.resize(problem.members);
    std::vector<int> members_of_host(problem.members, 0);
    for (const int host : host_) ++members_of_host[host];
    card_factor_.assign(problem.members, 1);
    // Where there is a card for each they need not be told apart. Parts of cards are as many more, all as much slower.
    const int groups = problem.groups_at_once;
    for (int member = 0; member < problem.members; ++member) {
      const int host = host_[member];
      if (cards[member] == 0 || cards[member] >= groups * members_of_host[host]) continue;
      const int ways = (cards[member] + groups - 1) / groups;
      out_.card_free[host].resize(ways);
      card_factor_[host] = static_cast<double>(ways * groups) / cards[member];
    }
    out_.network_free.resize(problem.members);
    out_.place_free.assign(places_.size(), std::vector<double>(problem.members));
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

MessageClock::Cards MessageClock::Take(Ways& ways, int member, int other, Taken& taken) const {
  if (HasCards(member) && HasCards(other)) {
    if (host_[member] == host_[other]) {
      taken.push_back({&ways.free[member], 1});
      return {};
    }
    taken.push_back({&ways.network_free[member], 1});
    for (size_t level = 0; level < places_.size(); ++level) {
      const std::vector<int>& place_of = places_[level];
      if (place_of[member] != place_of[other])
        taken.push_back(
            {&ways.place_free[level][place_of[member]], static_cast<double>(problem_.groups_at_once)});
    }
    std::vector<double>& cards = ways.card_free[host_[member]];
    return cards.empty() ? Cards{} : Cards{&cards, card_factor_[host_[member]]};
  }
  size_t way = member;
  for (size_t level = boundaries_.size(); level > 0; --level) {  // the outermost that lies between
    const Boundary& boundary = boundaries_[level - 1];
    if (boundary[member] == boundary[other]) continue;
    way = level * problem_.members + boundary[member];
    break;
  }
  taken.push_back({&ways.free[way], 1});
  return {};
}

MessageClock::Times MessageClock::Send(int from, int to, const Cost& cost, const Times& ready) {
  Taken taken;
  const Cards cards[] = {Take(out_, from, to, taken), Take(in_, to, from, taken)};
  double start = ready.first_seconds, slowest = 1;
  for (const Way& way : taken) {
    start = std::max(start, *way.free);
    slowest = std::max(slowest, way.factor);
  }
  for (const Cards& of_host : cards) {
    if (of_host.free == nullptr) continue;
    // The one that has been free for the shortest time: who comes earlier finds the others.
    double* chosen = &of_host.free->front();
    for (double& free : *of_host.free) {
      const bool fits = free <= start, chosen_fits = *chosen <= start;
      if (fits != chosen_fits ? fits : fits ? free > *chosen : free < *chosen) chosen = &free;
    }
    start = std::max(start, *chosen);
    taken.push_back({chosen, of_host.factor});
    slowest = std::max(slowest, of_host.factor);
  }
  for (const Way& way : taken) *way.free = start + way.factor * cost.occupied_seconds;
  const double whole = cost.whole_seconds + (slowest - 1) * cost.occupied_seconds;
  return {start + cost.chunk_seconds, std::max(start + whole, ready.last_seconds + cost.chunk_seconds)};
}

}  // namespace medley
