#pragma once
#include <vector>

#include "coordinator/planner/classes/stage_table.h"

namespace medley {

// A route by what its time depends on: its stages, front to back. Many routes of a plan may have one shape.
//
// Where stages have several units side by side it is a *bundle*: as many routes of a plan as there are ways to go round, which share
// units. Its j-th micro-batch is on the unit j modulo the stage's units of each stage.
struct RouteShape {
  int size = 0;  // of the micro-batches, index into PlanningProblem::micro_batch_sizes
  std::vector<StageForm> stages;

  bool is_bundle() const;
  // After so many micro-batches all units are in their turn again: routes of a plan that it is. 1: it is one.
  int routes() const;
};

bool SameShape(const RouteShape& a, const RouteShape& b);
// Has each stage do what takes the least time of what fits (StageTable::LeastSaving). False: something does not.
bool FitWithLeast(StageTable& table, RouteShape& shape);
// Of stages whose kinds and layers are told, what follows from their places.
void NumberStages(RouteShape& shape);
// Deals the model's layers to stages whose kinds are told, so that the longest pass is as short as can be. False: they do not fit.
bool DealLayers(StageTable& table, RouteShape& shape);
// Devices of each class that a route of this shape takes.
std::vector<int> DevicesOf(const StageTable& table, const RouteShape& shape);

// The passes of a micro-batch on all stages and its messages between them, which are as fast as can be.
double WaySeconds(const StageTable& table, const RouteShape& shape);

// When the stages of a route under 1F1B have run their last backwards: each forward and backward waits for its
// message and for the one before it on its unit. Messages of a route do not slow each other down here.
class RouteClock {
 public:
  // `first_forward_seconds`: by stage, before which its first forward does not end; or none.
  RouteClock(const StageTable& table, RouteShape shape, std::vector<double> first_forward_seconds = {});

  const RouteShape& shape() const { return shape_; }
  int sequences() const { return sequences_; }  // of a micro-batch
  // By stage. `micro_batches`: 1 or more. What a micro-batch more adds is the same from some number on.
  double LastBackwardSeconds(int stage, int micro_batches) const;
  // With so many seconds on each stage behind its last backward, until the last one ends.
  double Seconds(int micro_batches, const std::vector<double>& after_seconds) const;
  // The most micro-batches that are done by then; 0: not even one.
  int MicroBatchesBy(double seconds, const std::vector<double>& after_seconds) const;

 private:
  const std::vector<double>& Simulated(int micro_batches) const;
  std::vector<double> Simulate(int micro_batches) const;
  double PeriodAt(int micro_batches, int count) const;
  double SettledPeriod() const;

  RouteShape shape_;
  int sequences_ = 0;
  std::vector<double> forward_, backward_, message_;  // by stage; to the next one
  std::vector<double> first_forward_seconds_;
  // [micro-batches - 1][stage]; empty: not simulated yet.
  mutable std::vector<std::vector<double>> last_backwards_;
  double period_seconds_ = 0;
};

}  // namespace medley
