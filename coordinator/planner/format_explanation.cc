#include <algorithm>
#include <cmath>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "coordinator/planner/planner.h"

namespace medley {
namespace {

constexpr size_t kColumns = 110;

// Appends `text` in lines of at most kColumns, those after the first indented; a word that is longer is cut.
void AppendWrapped(const std::string& first_indent, const std::string& indent, const std::string& text,
                   std::string& out) {
  std::istringstream words(text);
  std::string line = first_indent, word;
  bool empty = true;
  while (words >> word) {
    while (!word.empty()) {
      const size_t space = empty ? 0 : 1;
      if (line.size() + space + word.size() <= kColumns) {
        absl::StrAppend(&line, empty ? "" : " ", word);
        word.clear();
      } else if (empty) {
        const size_t room = kColumns - line.size();
        line += word.substr(0, room);
        word = word.substr(room);
      }
      empty = false;
      if (word.empty()) continue;
      absl::StrAppend(&out, line, "\n");
      line = indent;
      empty = true;
    }
  }
  absl::StrAppend(&out, line, "\n");
}

std::string Shortened(const std::string& text, size_t most) {
  return text.size() <= most ? text : absl::StrCat(text.substr(0, most - 3), "...");
}

// What takes the memory of the devices in use, all in the unit that suits the largest limit.
void AppendMemory(const std::vector<Explanation::Device>& devices, std::string& out) {
  double largest = 0;
  for (const Explanation::Device& device : devices)
    largest = std::max(largest, static_cast<double>(device.memory_limit.value));
  const int unit = largest >= 1024.0 * 1024 * 1024 ? 2 : largest >= 1024.0 * 1024 ? 1 : 0;
  const double bytes_per_unit = std::pow(1024, unit + 1);
  constexpr const char* kUnits[] = {"KiB", "MiB", "GiB"};
  absl::StrAppendFormat(&out, "\n%-20s %9s %9s %9s %9s %9s %9s %9s %9s %9s\n",
                        absl::StrCat("memory in ", kUnits[unit]), "weights", "gradients", "optimizer", "kept",
                        "boundary", "sums", "workspace", "total", "limit");
  for (const Explanation::Device& device : devices) {
    if (!device.used) continue;
    const RankMemory& memory = device.memory;
    const Bytes workspace = device.peak_memory - memory.parameters - memory.gradients - memory.optimizer -
                            memory.activations - memory.boundaries - device.collectives;
    absl::StrAppendFormat(&out, "%-20s", Shortened(device.name, 20));
    for (const Bytes bytes :
         {memory.parameters, memory.gradients, memory.optimizer, memory.activations, memory.boundaries,
          device.collectives, workspace, device.peak_memory, device.memory_limit})
      absl::StrAppendFormat(&out, " %9.2f", static_cast<double>(bytes.value) / bytes_per_unit);
    out += "\n";
  }
  const auto keeps_layers = [](const Explanation::Device& device) { return device.memory.host > Bytes{0}; };
  if (std::none_of(devices.begin(), devices.end(), keeps_layers)) return;
  // Devices of one host have its memory together.
  absl::StrAppendFormat(&out, "\n%-20s %9s %9s\n", absl::StrCat("on hosts in ", kUnits[unit]), "layers",
                        "of host");
  for (const Explanation::Device& device : devices) {
    if (!keeps_layers(device)) continue;
    absl::StrAppendFormat(&out, "%-20s %9.2f", Shortened(device.name, 20),
                          static_cast<double>(device.memory.host.value) / bytes_per_unit);
    if (device.host_memory > Bytes{0})
      absl::StrAppendFormat(&out, " %9.2f", static_cast<double>(device.host_memory.value) / bytes_per_unit);
    out += device.host_memory > Bytes{0} ? "\n" : " not known\n";
  }
}

}  // namespace

std::string FormatExplanation(const Explanation& explanation) {
  std::string out;
  AppendWrapped("", "  ", explanation.summary, out);
  if (!explanation.fitting.empty()) AppendWrapped("Fitting     ", "  ", explanation.fitting, out);
  if (!explanation.orders.empty()) AppendWrapped("Order       ", "  ", explanation.orders, out);
  AppendWrapped("Bottleneck  ", "  ", explanation.bottleneck, out);
  if (!explanation.reductions.empty()) AppendWrapped("Reductions  ", "  ", explanation.reductions, out);
  if (!explanation.exchanges.empty()) AppendWrapped("Exchanges   ", "  ", explanation.exchanges, out);
  if (!explanation.messages.empty()) AppendWrapped("Messages    ", "  ", explanation.messages, out);
  absl::StrAppendFormat(&out, "Bubble      %.1f %% of the time of the devices in use\n\n",
                        100 * explanation.bubble_share);
  absl::StrAppendFormat(&out, "%-24s %-16s %6s %8s %13s %12s %12s\n", "device", "kind", "busy", "blocks",
                        "micro-batches", "memory", "limit");
  for (const Explanation::Device& device : explanation.devices) {
    const std::string name = Shortened(device.name, 24), kind = Shortened(device.kind, 16);
    if (!device.used) {
      absl::StrAppendFormat(&out, "%-24s %-16s %6s\n", name, kind, "-");
      continue;
    }
    absl::StrAppendFormat(&out, "%-24s %-16s %4.0f %% %8d %13d %12s %12s\n", name, kind,
                          100 * device.busy_share, device.blocks, device.micro_batches,
                          FormatBytes(device.peak_memory), FormatBytes(device.memory_limit));
  }
  AppendMemory(explanation.devices, out);
  if (!explanation.rejected.empty()) out += "\nInstead\n";
  for (const Explanation::Rejected& rejected : explanation.rejected) {
    const std::string seconds = rejected.step_seconds > 0 ? absl::StrFormat("%10.4f s", rejected.step_seconds)
                                                          : absl::StrFormat("%12s", "-");
    AppendWrapped(absl::StrFormat("  %-18s %s  ", NameOf(rejected.kind), seconds), "      ",
                  absl::StrCat(rejected.description, ": ", rejected.why_slower), out);
  }
  return out;
}

}  // namespace medley
