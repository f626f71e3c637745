#include "coordinator/predictor/task_simulation.h"

#include <algorithm>
#include <map>

namespace medley {

TaskSimulation::TaskSimulation(const PlanningProblem& problem, const SharedWays& ways, TaskGraph& graph)
    : problem_(problem), ways_(ways), graph_(graph) {
  std::map<int, int> processors, hosts;
  const auto number = [](int of, std::map<int, int>& numbers) {
    return numbers.emplace(of, static_cast<int>(numbers.size())).first->second;
  };
  for (const DeviceCost& device : problem.devices) {
    processor_.push_back(number(device.processor, processors));
    host_.push_back(device.shared_with <= 0 || device.host < 0 ? -1 : number(device.host, hosts));
  }
}

bool TaskSimulation::Run() {
  std::vector<Task>& tasks = graph_.tasks;
  running_.clear();
  computing_.assign(problem_.devices.size(), 0);
  computing_on_host_.assign(problem_.devices.size(), 0);
  threads_.assign(problem_.devices.size(), 0);
  ways_wanted_ = WaysWanted(ways_.count());
  sending_.assign(problem_.devices.size(), 0);
  receiving_.assign(problem_.devices.size(), 0);
  size_t ended = 0;
  double now = 0;
  for (int task = 0; task < static_cast<int>(tasks.size()); ++task) {
    if (tasks[task].waits_for == 0) Start(task, now);
  }
  while (!running_.empty()) {
    const int next = NextToEnd(now);
    const Running done = running_[next];
    running_[next] = running_.back();
    running_.pop_back();
    now = done.work.end_seconds;
    Task& task = tasks[done.task];
    if (done.resource == TaskResource::kNone && task.resource == TaskResource::kLink) {
      StartWork(done.task, now);
      continue;
    }
    Occupy(done, -1);
    task.end_seconds = now;
    ++ended;
    for (int e = task.first_edge; e >= 0; e = graph_.edges[e].next) {
      if (--tasks[graph_.edges[e].task].waits_for == 0) Start(graph_.edges[e].task, now);
    }
  }
  return ended == tasks.size();
}

void TaskSimulation::Start(int task, double now) {
  graph_.tasks[task].start_seconds = now;
  const double latency_seconds = graph_.tasks[task].latency_seconds;
  if (latency_seconds > 0) {
    running_.push_back({task, TaskResource::kNone, FluidWork::Begin(now, latency_seconds)});
  } else {
    StartWork(task, now);
  }
}

void TaskSimulation::StartWork(int task, double now) {
  // NextToEnd sets the true share before anything ends.
  running_.push_back(
      {task, graph_.tasks[task].resource, FluidWork::Begin(now, graph_.tasks[task].work_seconds)});
  Occupy(running_.back(), 1);
}

void TaskSimulation::Occupy(const Running& running, int change) {
  const Task& task = graph_.tasks[running.task];
  if (running.resource == TaskResource::kProcessor) {
    computing_[processor_[task.from]] += change;
    if (host_[task.from] >= 0) computing_on_host_[host_[task.from]] += change;
  }
  if (running.resource == TaskResource::kShared) {
    for (const int device : graph_.ThreadDevicesOf(task)) threads_[processor_[device]] += change;
    ways_wanted_.Change(graph_.WayPartsOf(task), change);
  }
  if (running.resource == TaskResource::kLink) {
    sending_[task.from] += change;
    receiving_[task.to] += change;
    ways_wanted_.Change(graph_.WayPartsOf(task), change);
  }
}

double TaskSimulation::ShareOf(const Running& running) const {
  const Task& task = graph_.tasks[running.task];
  switch (running.resource) {
    case TaskResource::kNone:
      return 1;
    case TaskResource::kProcessor:
      return SharingOfCores(task.from) * SlowdownOf(task);
    case TaskResource::kShared:
      return ShareOfShared(task);
    case TaskResource::kLink:
      return std::max<double>({static_cast<double>(sending_[task.from]),
                               static_cast<double>(receiving_[task.to]),
                               ways_wanted_.Slowdown(graph_.WayPartsOf(task))});
  }
  return 1;
}

double TaskSimulation::ShareOfShared(const Task& task) const {
  double share = ways_wanted_.Slowdown(graph_.WayPartsOf(task));
  for (const int device : graph_.ThreadDevicesOf(task)) share = std::max(share, SharingOfCores(device));
  return share;
}

// A computation has a thread on each core, a copy or a sum one in all.
double TaskSimulation::SharingOfCores(int device) const {
  const int computing = computing_[processor_[device]], threads = threads_[processor_[device]];
  if (threads == 0) return computing;
  return std::max(1.0,
                  computing + static_cast<double>(threads) / std::max(1, problem_.devices[device].cores));
}

// A device computes one thing at a time, so the computations on its host are the devices that compute.
double TaskSimulation::SlowdownOf(const Task& task) const {
  if (host_[task.from] < 0) return 1;
  const DeviceCost& device = problem_.devices[task.from];
  const double shared = task.updates ? device.shared_update_slowdown : device.shared_slowdown;
  return SlowdownBeside(device, shared, computing_on_host_[host_[task.from]] - 1);
}

// Brings what runs up to date with its shares; the index of what ends first.
int TaskSimulation::NextToEnd(double now) {
  int next = 0;
  for (int i = 0; i < static_cast<int>(running_.size()); ++i) {
    running_[i].work.Share(ShareOf(running_[i]), now);
    if (running_[i].work.end_seconds < running_[next].work.end_seconds) next = i;
  }
  return next;
}

}  // namespace medley
