#pragma once
#include <algorithm>

namespace medley {

// What the ranks of a unit compute and sum of a micro-batch in parts (Unit::exchange_parts), as their queues are given it: one
// sum at a time travels, beside what is computed next; the next one begins behind it. Where sums are made by what computes
// (`hides` is false), nothing is computed beside them.
class PartsTimeline {
 public:
  explicit PartsTimeline(bool hides) : hides_(hides) {}
  void Compute(double seconds) { queue_seconds_ += seconds; }
  // Of what was computed last.
  void BeginSum(double seconds) {
    Await();
    line_seconds_ = queue_seconds_ + seconds;
    if (!hides_) Await();
  }
  // What is computed next waits for the sum under way.
  void Await() { queue_seconds_ = std::max(queue_seconds_, line_seconds_); }
  // From the beginning to the end of all that was given.
  double Seconds() {
    Await();
    return queue_seconds_;
  }

 private:
  bool hides_;
  double queue_seconds_ = 0, line_seconds_ = 0;  // when each has done what it has
};

}  // namespace medley
