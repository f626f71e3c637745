#include <algorithm>

#include "runtime/ir/collective/collective_time.h"
#include "runtime/ir/collective/message_clock.h"

namespace medley {

double RingSeconds(const CollectiveProblem& problem, const GroupShape& shape, SumPart part) {
  using Times = MessageClock::Times;
  const int n = problem.members;
  if (n < 2) return 0;
  const std::vector<int> order = OrderOf(shape, n);
  const std::vector<ElementRange> by_member = part == SumPart::kWhole
                                                  ? SlicesOf(problem.elements, n, shape.shares)
                                                  : OwnedSlices(problem.elements, n, shape.shares);
  std::vector<int> place_of(n);
  std::vector<int64_t> sizes(n);  // by place, as are all that follow
  for (int place = 0; place < n; ++place) {
    place_of[order[place]] = place;
    sizes[place] = by_member[order[place]].size();
  }
  const auto after = [n](int place) { return place + 1 < n ? place + 1 : 0; };
  const auto before = [n](int place) { return place > 0 ? place - 1 : n - 1; };

  MessageClock clock(problem);
  // By the place that sends: what it cost last, and what for; even slices have two sizes at most.
  struct Known {
    int64_t size = -1;
    bool exchanged = false;
    MessageClock::Cost cost;
  };
  std::vector<Known> known(n);

  const int rounds = 2 * (n - 1), first_round = part == SumPart::kGathered ? n - 1 : 0,
            end_round = part == SumPart::kScattered ? n - 1 : rounds;
  std::vector<Times> times(static_cast<size_t>(rounds) * n);  // of the message that a place sends
  double last = 0;
  for (int round = first_round; round < end_round; ++round) {
    // The slice that a place sends, less than n before it.
    const int behind = round < n - 1 ? 1 + round : round - (n - 1);
    Times* const now = &times[static_cast<size_t>(round) * n];
    for (int member = 0; member < n; ++member) {
      const int place = place_of[member], next = after(place);
      const int slice = place >= behind ? place - behind : place - behind + n;
      if (sizes[slice] == 0) continue;
      Times ready;
      if (round > first_round) ready.Follow((now - n)[before(place)]);  // came to be sent on
      // What the receiver copies over it has sent before, in its turn of sums.
      if (part == SumPart::kWhole && round >= n - 1)
        ready.Follow((now - static_cast<ptrdiff_t>(n - 1) * n)[next]);
      // The one comes to the sender, the other leaves the receiver.
      const bool exchanged = sizes[before(slice)] > 0 || sizes[after(slice)] > 0;
      Known& cost = known[place];
      if (cost.size != sizes[slice] || cost.exchanged != exchanged) {
        cost = {sizes[slice], exchanged, clock.CostOf(member, order[next], sizes[slice], exchanged)};
      }
      now[place] = clock.Send(member, order[next], cost.cost, ready);
      last = std::max(last, now[place].last_seconds);
    }
  }
  return last;
}

}  // namespace medley
