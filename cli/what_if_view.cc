#include "cli/what_if_view.h"

#include <cmath>
#include <map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "cli/number_format.h"
#include "cli/text_table.h"
#include "cli/views.h"
#include "runtime/base/bytes.h"

namespace medley {
namespace {

struct Shown {
  const char* name;
  std::string (*format)(double);
};

std::string FormatMemory(double bytes) { return FormatBytes({static_cast<int64_t>(bytes)}); }
std::string FormatPercent(double percent) {
  return absl::StrFormat("%+.1f %%", std::abs(percent) < 0.05 ? 0 : percent);  // without "-0.0"
}
std::string FormatCount(double count) { return absl::StrFormat("%.0f", count); }

// By WhatIfFigure::name.
Shown ShownAs(const std::string& name) {
  static const auto* const all = new std::map<std::string, Shown>{
      {"tokens_per_second", {"tokens/s", FormatRate}},
      {"step_seconds", {"step", FormatStepSeconds}},
      {"job_seconds", {"job takes", FormatDuration}},
      {"price_per_hour", {"price an hour", FormatAmount}},
      {"cost_per_million_tokens", {"cost of a million tokens", FormatAmount}},
      {"job_cost", {"job costs", FormatAmount}},
      {"devices_used", {"devices in use", FormatCount}},
      {"devices_left_out", {"devices left out", FormatCount}},
      {"peak_memory_bytes", {"most memory", FormatMemory}},
  };
  const auto shown = all->find(name);
  return shown == all->end() ? Shown{nullptr, FormatCount} : shown->second;
}

}  // namespace

std::string FormatWhatIf(const v1::WhatIfReport& report, size_t columns) {
  std::vector<std::vector<std::string>> rows = {{"", "TODAY", "CHANGED", "DIFFERENCE"}};
  for (const v1::WhatIfFigure& figure : report.figures()) {
    const Shown shown = ShownAs(figure.name());
    const std::string name = shown.name == nullptr ? Printable(figure.name()) : shown.name;
    rows.push_back({figure.kind().empty() ? name : absl::StrCat(name, ", ", Printable(figure.kind())),
                    shown.format(figure.today()), shown.format(figure.changed()),
                    figure.has_difference_percent() ? FormatPercent(figure.difference_percent()) : ""});
  }
  std::string text;
  for (const std::string& change : report.changes()) absl::StrAppend(&text, Printable(change), "\n");
  absl::StrAppend(&text, text.empty() ? "" : "\n", FormatTable(rows, columns), "\n");
  for (const auto& [name, plan] :
       {std::pair("today", &report.today()), std::pair("changed", &report.changed())}) {
    std::string line =
        absl::StrCat(name, ": bound by ", Printable(plan->bottleneck()), "; ", QualityOf(*plan));
    if (const std::string error = ErrorOf(*plan); !error.empty())
      absl::StrAppend(&line, "; its step is ", error);
    absl::StrAppend(&text, absl::StrJoin(WrapText(line, columns), "\n  "), "\n");
  }
  return text;
}

}  // namespace medley
