#pragma once
#include <vector>

#include "coordinator/predictor/cost_model.h"
#include "coordinator/predictor/fluid_work.h"
#include "coordinator/predictor/shared_ways.h"
#include "coordinator/predictor/task_graph.h"

namespace medley {

// Has virtual time go by until the tasks of a graph are done. A task starts when all that it waits for have ended. Time is fluid: what
// runs takes longer by what it shares just then, a processor with other computations and with the threads of copies and sums, its host
// with other devices that compute, the ends of a link with other messages, and ways with whatever takes these (WaysWanted). After each
// end the shares are brought up to date.
//
// Keeps its buffers from run to run, and references to all that it is made of, which must outlive it.
class TaskSimulation {
 public:
  TaskSimulation(const PlanningProblem& problem, const SharedWays& ways, TaskGraph& graph);

  // Sets when each task starts and ends, and takes the graph's waits up. False: some wait for each other in a circle, and never end.
  bool Run();

 private:
  struct Running {
    int task;
    TaskResource resource;  // kNone while in its latency
    FluidWork work;
  };

  void Start(int task, double now);
  void StartWork(int task, double now);
  int NextToEnd(double now);
  void Occupy(const Running& running, int change);
  double ShareOf(const Running& running) const;
  double SlowdownOf(const Task& task) const;
  // How many times longer what runs on the cores of `device` takes than alone: the threads on them get equal parts.
  double SharingOfCores(int device) const;
  double ShareOfShared(const Task& task) const;

  const PlanningProblem& problem_;
  const SharedWays& ways_;
  TaskGraph& graph_;
  // The processor and the host of each device, numbered from 0; -1: it shares nothing with its host.
  std::vector<int> processor_, host_;
  std::vector<Running> running_;
  std::vector<int> computing_,
      threads_;  // running tasks of a processor: computations, and threads beside them
  std::vector<int> sending_, receiving_;  // likewise, of a device's ends
  std::vector<int> computing_on_host_;    // likewise, of the devices with a host_
  WaysWanted ways_wanted_;                // by running tasks
};

}  // namespace medley
