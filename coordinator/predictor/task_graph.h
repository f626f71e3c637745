#pragma once
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "coordinator/predictor/shared_ways.h"

// A step as tasks: what each takes by itself, what it uses that others use at the same time, and who waits for it. Who makes one
// (StepTasks) knows instructions and no time; who has time go by (TaskSimulation) knows no instructions.
namespace medley {

// kShared: a thread on the cores of each of some devices that compute on these, for what they copy or sum, and parts of
// shared ways, as a link takes them too.
enum class TaskResource : uint8_t { kNone, kProcessor, kShared, kLink };

struct Task {
  TaskResource resource = TaskResource::kNone;
  double latency_seconds = 0;  // before `work_seconds`, using nothing
  double work_seconds = 0;     // when the resource is not shared
  int from = -1, to = -1;      // devices of a message; `from` is the device of a computation or a copy
  int waits_for = 0;           // tasks not done yet
  int first_edge = -1;         // into TaskGraph::edges: tasks that wait for this one
  double start_seconds = 0, end_seconds = -1;
  bool updates = false;                  // of a computation: memory bounds it, as norms and updates
  int first_thread = 0, end_thread = 0;  // into TaskGraph::thread_devices
  int first_way = 0, end_way = 0;        // into TaskGraph::way_parts
};

// Its buffers are kept from step to step.
struct TaskGraph {
  struct Edge {
    int task;
    int next;
  };
  std::vector<Task> tasks;
  std::vector<Edge> edges;
  std::vector<int> thread_devices;
  std::vector<WayPart> way_parts;

  void Clear() {
    tasks.clear();
    edges.clear();
    thread_devices.clear();
    way_parts.clear();
  }
  // Its number.
  int Add(const Task& task = {}) {
    tasks.push_back(task);
    return static_cast<int>(tasks.size()) - 1;
  }
  void AddEdge(int from, int to) {
    edges.push_back({to, tasks[from].first_edge});
    tasks[from].first_edge = static_cast<int>(edges.size()) - 1;
    ++tasks[to].waits_for;
  }
  absl::Span<const int> ThreadDevicesOf(const Task& task) const {
    return absl::MakeSpan(thread_devices).subspan(task.first_thread, task.end_thread - task.first_thread);
  }
  absl::Span<const WayPart> WayPartsOf(const Task& task) const {
    return absl::MakeSpan(way_parts).subspan(task.first_way, task.end_way - task.first_way);
  }
};

}  // namespace medley
