#pragma once
#include "coordinator/predictor/cost_model.h"
#include "coordinator/predictor/device_classes.h"

namespace medley {

// What sums of gradients take at least in plans of so many replicas, whichever devices they are on and however their
// layers are cut.
//
// Of n holders on h hosts some host takes in 2 (h - 1) / h of the vector, for h - 1 messages bring each element together
// and as many others must hear of it. It comes by as many messages at a time as the host has cards, or as many as there
// are holders on it if that is less, each at no more than the greatest slope of any link between hosts. And some holder
// takes in the whole vector, from its host and from others at once. Predictions of sums over many holders in large clusters look at
// samples of them and at one of each host, of which the same is said. Nothing is said where cards are not known.
//
// Units of several devices hold parts of a layer. All holders of it wait until those of the fewest devices, d, have summed its n
// elements, n / d on each rank (AlikeRoutePredictor), d such sums at once on each host. So n elements come by no more
// messages at a time than a host has cards or devices.
class SumFloor {
 public:
  // `replicas`: of each layer at least; fewer than 2: nothing is summed.
  SumFloor(const PlanningProblem& problem, int replicas);
  // Of sums that are shared by at least so many holders, in even parts, one of them on a host of `of`, and that predictions look at message
  // by message (kMostSummedWhole): what that host's devices do not own comes, or goes, by its cards and over its own links. Half of Seconds() is
  // what scattering takes at least; of whole sums nothing is said.
  static SumFloor OfHosts(const PlanningProblem& problem, const DeviceClass& of, int holders);

  // Whether there is anything to be said.
  bool knows() const { return between_.part > 0 || within_.part > 0; }
  // Of sums of so many elements that a unit of `degree` devices holds, one after another: one of each segment at most, and
  // of a part of it for each rank of the widest units. Scattering around a ring takes half of it at least, and so does gathering: of n
  // holders on h hosts some host takes in (h - 1) / h of the vector, and some holder (n - 1) / n, whatever part each has.
  double Seconds(double elements, int degree, int segments) const;
  // How many times as long as scattering it gathering takes at least, whose bytes are those of f32; by a library that was measured as long.
  double gathered_over_scattered() const { return gathered_over_scattered_; }

 private:
  explicit SumFloor(const PlanningProblem& problem);
  // What some host, or holder, takes in.
  struct Intake {
    double part = 0;  // of a vector; 0: nothing is known
    double bytes_per_second = 0;
    double level_bytes = 0;  // of a sum, that may come in no time
  };
  static Intake IntakeOf(double part, double bytes_per_second, double holders, double level_bytes);

  Intake between_, within_;  // by one message at a time between hosts; of a holder
  int most_cards_ = 0, most_on_host_ = 1;
  double bytes_per_element_ = 0, gathered_over_scattered_ = 1;
};

}  // namespace medley
