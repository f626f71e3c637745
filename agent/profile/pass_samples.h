#pragma once
#include <string>
#include <vector>

// What repeated measurements of a pass come to, on a processor that others may want, too. Pure.
namespace medley {

// One repetition of a pass, or the mean of a few that followed each other.
struct PassSample {
  double seconds = 0;
  // The part of `seconds` in which it was ready to compute while others had the processor; 0 where nobody can
  // tell.
  double waited_seconds = 0;

  PassSample& operator+=(const PassSample& other) {
    seconds += other.seconds;
    waited_seconds += other.waited_seconds;
    return *this;
  }
};

struct Middle {
  double seconds = 0;
  double spread = 0;  // half the distance between the quartiles, over the median
};

// What a pass takes typically while nobody else has the processor: the mean of those samples that do not lie
// far outside of the quartiles, of what is left of them without waiting. A step of training is the sum of
// many passes, so a mean; a short burst of disturbance does not count. `samples`: one or more.
Middle MiddleOf(const std::vector<PassSample>& samples);

// How much longer all takes because others use the processor, 1 to 10: times MiddleOf it is never more than what was
// measured, however much the kernel says that was waited for. `rounds`: what followed each other without a pause. Training will
// see what is there most of the time, so a load counts, over all rounds; if fewer than a fifth of them waited for it, it was a
// burst and does not.
double ForeignSlowdown(const std::vector<PassSample>& rounds);

// Why times with such a slowdown say more about the others than about the device, for people; empty: they do not.
std::string DoubtOfSlowdown(double slowdown);

}  // namespace medley
