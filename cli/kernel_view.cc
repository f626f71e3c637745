#include "cli/kernel_view.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/text_table.h"

namespace medley {
namespace {

std::string ReasonsOf(const v1::KernelChoice& choice) {
  std::vector<std::string> reasons;
  for (const v1::KernelObjection& declined : choice.declined()) {
    reasons.push_back(absl::StrCat(Printable(declined.candidate()), ": ", Printable(declined.reason())));
  }
  // Where none took it, the failure has all objections in it.
  if (choice.chosen().empty()) return Printable(choice.failure());
  if (!choice.failure().empty()) reasons.push_back(absl::StrCat("FAILED: ", Printable(choice.failure())));
  return absl::StrJoin(reasons, "; ");
}

// The way a choice goes, and the dtypes that go it.
struct Line {
  std::string form, dtypes, kernel, reasons;
  bool GoesAs(const Line& other) const { return kernel == other.kernel && reasons == other.reasons; }
};

Line LineOf(const v1::KernelChoice& choice) {
  return {Printable(choice.form()), Printable(choice.dtype()),
          choice.chosen().empty() ? "none" : Printable(choice.chosen()), ReasonsOf(choice)};
}

// Condenses all lines of one op.
std::vector<Line> Condense(const std::vector<Line>& all) {
  std::vector<Line> kept;
  for (const Line& line : all) {
    const bool as_plain = !line.form.empty() && std::any_of(all.begin(), all.end(), [&](const Line& other) {
      return other.form.empty() && other.dtypes == line.dtypes && other.GoesAs(line);
    });
    if (as_plain) continue;
    if (!kept.empty() && kept.back().form == line.form && kept.back().GoesAs(line)) {
      absl::StrAppend(&kept.back().dtypes, " ", line.dtypes);
    } else {
      kept.push_back(line);
    }
  }
  return kept;
}

std::string FormatChoices(const v1::DeviceKernels& device, size_t columns) {
  std::vector<std::vector<std::string>> rows = {{"OP", "DTYPE", "KERNEL", "DECLINED"}};
  for (int begin = 0, end = 0; begin < device.choices_size(); begin = end) {
    const std::string& op = device.choices(begin).op();
    std::vector<Line> lines;
    for (; end < device.choices_size() && device.choices(end).op() == op; ++end) {
      lines.push_back(LineOf(device.choices(end)));
    }
    for (const Line& line : Condense(lines)) {
      const std::string form = line.form.empty() ? "" : absl::StrCat(" (", line.form, ")");
      rows.push_back({absl::StrCat(Printable(op), form), line.dtypes, line.kernel, line.reasons});
    }
  }
  return FormatTable(rows, columns);
}

std::string FormatDevice(const std::string& node, const v1::DeviceKernels& device, size_t columns) {
  std::vector<std::string> candidates;
  for (const std::string& candidate : device.candidates()) candidates.push_back(Printable(candidate));
  std::string text = absl::StrCat(Printable(node), "/", Printable(device.device()));
  if (!device.description().empty()) {
    absl::StrAppend(&text, ": ", Printable(device.description()),
                    "; kernels, best first: ", absl::StrJoin(candidates, ", "));
  }
  absl::StrAppend(&text, "\n");
  if (!device.choices().empty()) absl::StrAppend(&text, FormatChoices(device, columns));
  if (!device.failure().empty())
    absl::StrAppend(&text, "cannot be asked: ", Printable(device.failure()), "\n");
  return text;
}

}  // namespace

std::string FormatKernels(const v1::ListKernelsResponse& response, size_t columns) {
  std::vector<std::string> parts;
  for (const v1::NodeKernels& node : response.nodes()) {
    for (const v1::DeviceKernels& device : node.devices())
      parts.push_back(FormatDevice(node.node(), device, columns));
    if (!node.failure().empty()) {
      parts.push_back(absl::StrCat(Printable(node.node()), ": ", Printable(node.failure()), "\n"));
    }
  }
  return absl::StrJoin(parts, "\n");
}

}  // namespace medley
