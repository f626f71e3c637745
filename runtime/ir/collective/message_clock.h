#pragma once
#include <vector>

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
  const CollectiveProblem& problem_;
  const std::vector<Boundary> boundaries_;
  std::vector<double> out_free_, in_free_;  // by level (members, then boundaries) * members + member or part
};

}  // namespace medley
