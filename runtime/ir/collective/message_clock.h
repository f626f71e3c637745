#pragma once
#include <vector>

#include "absl/container/inlined_vector.h"
#include "runtime/ir/collective/collective_problem.h"

namespace medley {

// When messages come and go, as collective_time.h says; private to the predictors.
class MessageClock {
 public:
  explicit MessageClock(const CollectiveProblem& problem);

  // From the start of the collective.
  struct Times {
    double first_seconds = 0;  // the first chunk has come
    double last_seconds = 0;   // all has come
    void Follow(const Times& other) {
      if (other.first_seconds > first_seconds) first_seconds = other.first_seconds;
      if (other.last_seconds > last_seconds) last_seconds = other.last_seconds;
    }
  };
  // What a message takes by itself.
  struct Cost {
    double chunk_seconds = 0, whole_seconds = 0, occupied_seconds = 0;
  };
  Cost CostOf(int from, int to, int64_t elements, bool exchanged) const;
  // The next message; `ready`: when the first of what it carries is there, and all.
  Times Send(int from, int to, const Cost& cost, const Times& ready);

 private:
  // One direction.
  struct Ways {
    std::vector<double> free;          // by level (members, then boundaries) * members + member or part
    std::vector<double> network_free;  // by member, to other hosts whose cards are known
    std::vector<std::vector<double>> card_free;   // by host; none: there is one for each member
    std::vector<std::vector<double>> place_free;  // by level of places, and place
  };
  struct Way {
    double* free;
    double factor;  // how many times longer it is taken
  };
  struct Cards {
    std::vector<double>* free = nullptr;
    double factor = 1;
  };
  using Taken = absl::InlinedVector<Way, 8>;
  // Adds what a message takes of the ways at one end; returns the cards of which it takes one, if any.
  Cards Take(Ways& ways, int member, int other, Taken& taken) const;
  bool HasCards(int member) const { return !host_.empty() && problem_.cards_of_member[member] > 0; }

  const CollectiveProblem& problem_;
  const std::vector<Boundary> boundaries_;
  std::vector<int> host_;                 // by member, numbered from 0; none: no cards are known
  std::vector<std::vector<int>> places_;  // by level beyond hosts, and by member, numbered from 0
  std::vector<double> card_factor_;       // by host: how many times longer a message takes one of its cards
  Ways out_, in_;
};

}  // namespace medley
