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
  if (!explanation.helps_not_tried.empty())
    AppendWrapped("Would help  ", "  ", explanation.helps_not_tried, out);
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
