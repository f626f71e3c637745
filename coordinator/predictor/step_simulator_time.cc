// How the tasks of a step share what they use while virtual time goes by.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "coordinator/predictor/step_simulator.h"

namespace medley {

absl::Status StepSimulator::Simulate() {
  running_.clear();
  computing_.assign(problem_.devices.size(), 0);
  computing_on_host_.assign(problem_.devices.size(), 0);
  threads_.assign(problem_.devices.size(), 0);
  ways_wanted_ = WaysWanted(ways_.count());
  sending_.assign(problem_.devices.size(), 0);
  receiving_.assign(problem_.devices.size(), 0);
  size_t ended = 0;
  double now = 0;
  for (int task = 0; task < static_cast<int>(tasks_.size()); ++task) {
    if (tasks_[task].waits_for == 0) Start(task, now);
  }
  while (!running_.empty()) {
    const int next = NextToEnd(now);
    const Running done = running_[next];
    running_[next] = running_.back();
    running_.pop_back();
    now = done.work.end_seconds;
    Task& task = tasks_[done.task];
    if (done.resource == Resource::kNone && task.resource == Resource::kLink) {
      StartWork(done.task, now);
      continue;
    }
    Occupy(done, -1);
    task.end_seconds = now;
    ++ended;
    for (int e = task.first_edge; e >= 0; e = edges_[e].next) {
      if (--tasks_[edges_[e].task].waits_for == 0) Start(edges_[e].task, now);
    }
  }
  if (ended == tasks_.size()) return absl::OkStatus();
  for (int rank = 0; rank < static_cast<int>(programs_.size()); ++rank) {
    const std::vector<Instruction>& instructions = Simulated(rank).instructions;
    for (int i = 0; i < static_cast<int>(instructions.size()); ++i) {
      if (tasks_[tasks_of_instruction_[first_instruction_[rank] + i].last].end_seconds >= 0) continue;
      return absl::InternalError(absl::StrCat("step programs wait for each other: rank ", rank,
                                              ", instruction ", i, " (", NameOf(instructions[i].kind),
                                              ") never starts"));
    }
  }
  return absl::InternalError("step programs wait for each other");
}

void StepSimulator::Start(int task, double now) {
  tasks_[task].start_seconds = now;
  const double latency_seconds = tasks_[task].latency_seconds;
  if (latency_seconds > 0) {
    running_.push_back({task, Resource::kNone, FluidWork::Begin(now, latency_seconds)});
  } else {
    StartWork(task, now);
  }
}

void StepSimulator::StartWork(int task, double now) {
  // NextToEnd sets the true share before anything ends.
  running_.push_back({task, tasks_[task].resource, FluidWork::Begin(now, tasks_[task].work_seconds)});
  Occupy(running_.back(), 1);
}

void StepSimulator::Occupy(const Running& running, int change) {
  const Task& task = tasks_[running.task];
  if (running.resource == Resource::kProcessor) {
    computing_[processor_[task.from]] += change;
    if (host_[task.from] >= 0) computing_on_host_[host_[task.from]] += change;
  }
  if (running.resource == Resource::kShared) {
    for (int t = task.first_thread; t < task.end_thread; ++t)
      threads_[processor_[thread_devices_[t]]] += change;
    ways_wanted_.Change(WayPartsOf(task), change);
  }
  if (running.resource == Resource::kLink) {
    sending_[task.from] += change;
    receiving_[task.to] += change;
    ways_wanted_.Change(WayPartsOf(task), change);
  }
}

double StepSimulator::ShareOf(const Running& running) const {
  const Task& task = tasks_[running.task];
  switch (running.resource) {
    case Resource::kNone:
      return 1;
    case Resource::kProcessor:
      return SharingOfCores(task.from) * SlowdownOf(task);
    case Resource::kShared:
      return ShareOfShared(task);
    case Resource::kLink:
      return std::max<double>({static_cast<double>(sending_[task.from]),
                               static_cast<double>(receiving_[task.to]),
                               ways_wanted_.Slowdown(WayPartsOf(task))});
  }
  return 1;
}

double StepSimulator::ShareOfShared(const Task& task) const {
  double share = ways_wanted_.Slowdown(WayPartsOf(task));
  for (int t = task.first_thread; t < task.end_thread; ++t)
    share = std::max(share, SharingOfCores(thread_devices_[t]));
  return share;
}

// A computation has a thread on each core, a copy or a sum one in all.
double StepSimulator::SharingOfCores(int device) const {
  const int computing = computing_[processor_[device]], threads = threads_[processor_[device]];
  if (threads == 0) return computing;
  return std::max(1.0,
                  computing + static_cast<double>(threads) / std::max(1, problem_.devices[device].cores));
}

// A device computes one thing at a time, so the computations on its host are the devices that compute.
double StepSimulator::SlowdownOf(const Task& task) const {
  if (host_[task.from] < 0) return 1;
  const DeviceCost& device = problem_.devices[task.from];
  const double shared = task.updates ? device.shared_update_slowdown : device.shared_slowdown;
  return SlowdownBeside(device, shared, computing_on_host_[host_[task.from]] - 1);
}

// Brings what runs up to date with its shares; the index of what ends first.
int StepSimulator::NextToEnd(double now) {
  int next = 0;
  for (int i = 0; i < static_cast<int>(running_.size()); ++i) {
    running_[i].work.Share(ShareOf(running_[i]), now);
    if (running_[i].work.end_seconds < running_[next].work.end_seconds) next = i;
  }
  return next;
}

}  // namespace medley
