#include "runtime/web/open_metrics.h"

#include <charconv>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"

namespace medley {
namespace {

std::string Escaped(const std::string& text) {
  return absl::StrReplaceAll(text, {{"\\", "\\\\"}, {"\"", "\\\""}, {"\n", "\\n"}});
}

std::string NumberText(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  char text[32] = {};
  return std::string(text, std::to_chars(text, text + sizeof(text), value).ptr);  // as short as reads back
}

}  // namespace

void OpenMetrics::Family(const std::string& name, Type type, const std::string& help) {
  static constexpr const char* kKinds[] = {"gauge", "counter", "histogram", "info"};
  const char* kind = kKinds[static_cast<int>(type)];
  absl::StrAppend(&text_, "# TYPE ", name, " ", kind, "\n# HELP ", name, " ", Escaped(help), "\n");
  name_ = absl::StrCat(name, type == Type::kCounter ? "_total" : type == Type::kInfo ? "_info" : "");
}

void OpenMetrics::Add(const Labels& labels, double value) { AddNamed("", labels, value); }

void OpenMetrics::AddNamed(const char* ending, const Labels& labels, double value) {
  const std::string inside = absl::StrJoin(labels, ",", [](std::string* out, const auto& label) {
    absl::StrAppend(out, label.first, "=\"", Escaped(label.second), "\"");
  });
  absl::StrAppend(&text_, name_, ending, inside.empty() ? "" : absl::StrCat("{", inside, "}"), " ",
                  NumberText(value), "\n");
}

void OpenMetrics::AddHistogram(const Labels& labels, const DurationHistogram& durations) {
  const auto& bounds = DurationHistogram::kBounds;
  double so_far = 0;
  for (size_t i = 0; i < durations.counts.size(); ++i) {
    so_far += static_cast<double>(durations.counts[i]);
    Labels with_bound = labels;
    with_bound.emplace_back("le", i < bounds.size() ? absl::StrFormat("%g", bounds[i]) : "+Inf");
    AddNamed("_bucket", with_bound, so_far);
  }
  AddNamed("_count", labels, so_far);
  AddNamed("_sum", labels, durations.seconds_total);
}

void OpenMetrics::Single(const std::string& name, Type type, const std::string& help, double value) {
  Family(name, type, help);
  Add({}, value);
}

std::string OpenMetrics::Text() const { return text_ + "# EOF\n"; }

}  // namespace medley
