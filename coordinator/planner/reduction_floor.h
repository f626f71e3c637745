#pragma once
#include <vector>

#include "coordinator/predictor/cost_model.h"
#include "runtime/ir/link/link_rise.h"

namespace medley {

// What summing gradients takes at least, by whatever algorithm and over whatever devices.
//
// Some member gets every byte of the vector, on one way in that its messages take in turns, in at most so
// many messages as a ring over all devices has: each member of a ring or a tree and each of an innermost
// group does, and in halving and doubling each that another folds itself into, or its first partner. All n
// members together get every byte 2 (n - 1) times: n - 1 messages bring it together, and as many others must
// hear of it. In either half of a ring some member gets half of the vector at least, on the way from one neighbour, in half as many
// messages, whatever its shares. A message of b bytes occupies its way in for model(b) - model(0), of which LinkRise tells.
class ReductionFloor {
 public:
  // Keeps nothing of `problem`.
  explicit ReductionFloor(const PlanningProblem& problem);

  // Half of it, where the problem charges scattering alone.
  // The seconds that summing vectors of `bytes` in all, `vectors` at most, takes at least.
  double Seconds(double bytes, int vectors) const { return Seconds(whole_, bytes, vectors); }
  // The same for one vector over `devices`, who have so many ways in (Reductions::WaysIn).
  double SecondsOver(const std::vector<int>& devices, int ways_in, double bytes) const;

 private:
  double Seconds(const LinkRise& rise, double bytes, int vectors) const;

  double charged_part_ = 1;
  double most_messages_ = 0;                  // that come to a member in one sum
  std::vector<std::vector<LinkRise>> rises_;  // [device][device]
  LinkRise whole_;                            // of all links
};

}  // namespace medley
