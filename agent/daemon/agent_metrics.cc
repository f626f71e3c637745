#include "agent/daemon/agent_metrics.h"

#include <functional>
#include <map>
#include <string>

namespace medley {

void AddAgentFigures(const v1::Node& node, const std::vector<v1::AgentTask>& tasks, OpenMetrics& metrics) {
  using Type = OpenMetrics::Type;
  std::map<std::string, uint64_t> used_bytes;  // of devices that a worker has
  double started = 0;
  for (const v1::AgentTask& task : tasks) {
    used_bytes[task.device()] = task.allocated_bytes();
    started += task.started() ? 1 : 0;
  }
  const auto labels = [&](const v1::Device& device) {
    return OpenMetrics::Labels{{"node", node.name()}, {"device", device.name()}};
  };
  metrics.Family("medley_agent_device_busy", Type::kGauge, "1: a worker has the device.");
  for (const v1::Device& device : node.devices()) {
    OpenMetrics::Labels with_kind = labels(device);
    with_kind.emplace_back("kind", device.kind());
    metrics.Add(with_kind, used_bytes.count(device.name()) > 0 ? 1 : 0);
  }
  metrics.Family("medley_agent_device_memory_limit_bytes", Type::kGauge,
                 "What a plan may put on the device.");
  for (const v1::Device& device : node.devices())
    metrics.Add(labels(device), static_cast<double>(device.memory_bytes()));
  metrics.Family("medley_agent_device_memory_usage_bytes", Type::kGauge,
                 "Of the device's memory, what its worker used after its newest step.");
  for (const v1::Device& device : node.devices())
    metrics.Add(labels(device), static_cast<double>(used_bytes[device.name()]));
  // What has no cores of this machine's is a processor of its own, for which OpenTelemetry has names.
  const auto of_cards = [&](const char* name, const char* help,
                            const std::function<double(const v1::Device&)>& value) {
    metrics.Family(name, Type::kGauge, help);
    for (const v1::Device& device : node.devices()) {
      if (device.cores().empty() && !device.emulated())
        metrics.Add({{"hw_id", node.name() + "/" + device.name()},
                     {"hw_name", device.name()},
                     {"hw_model", device.kind()}},
                    value(device));
    }
  };
  of_cards("hw_gpu_memory_limit_bytes", "OpenTelemetry's hw.gpu.memory.limit, of what plans may put there.",
           [](const v1::Device& device) { return static_cast<double>(device.memory_bytes()); });
  of_cards("hw_gpu_memory_usage_bytes", "OpenTelemetry's hw.gpu.memory.usage, of Medley's worker.",
           [&](const v1::Device& device) { return static_cast<double>(used_bytes[device.name()]); });
  metrics.Family("medley_agent_tasks", Type::kGauge,
                 "Tasks of workers: those that prepare, and those that were let go.");
  metrics.Add({{"state", "preparing"}}, static_cast<double>(tasks.size()) - started);
  metrics.Add({{"state", "started"}}, started);
}

}  // namespace medley
