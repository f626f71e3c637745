#include "agent/daemon/agent_metrics.h"

#include <set>
#include <string>

namespace medley {

void AddAgentFigures(const v1::Node& node, const std::vector<v1::AgentTask>& tasks, OpenMetrics& metrics) {
  using Type = OpenMetrics::Type;
  std::set<std::string> busy;
  double started = 0;
  for (const v1::AgentTask& task : tasks) {
    busy.insert(task.device());
    started += task.started() ? 1 : 0;
  }
  metrics.Family("medley_agent_device_busy", Type::kGauge, "1: a worker has the device.");
  for (const v1::Device& device : node.devices())
    metrics.Add({{"device", device.name()}, {"kind", device.kind()}}, busy.count(device.name()) > 0 ? 1 : 0);
  metrics.Family("medley_agent_device_memory_limit_bytes", Type::kGauge,
                 "What a plan may put on the device.");
  for (const v1::Device& device : node.devices())
    metrics.Add({{"device", device.name()}}, static_cast<double>(device.memory_bytes()));
  metrics.Family("medley_agent_tasks", Type::kGauge,
                 "Tasks of workers: those that prepare, and those that were let go.");
  metrics.Add({{"state", "preparing"}}, static_cast<double>(tasks.size()) - started);
  metrics.Add({{"state", "started"}}, started);
}

}  // namespace medley
