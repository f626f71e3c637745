#include "runtime/web/open_metrics.h"

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
  return absl::StrFormat("%.17g", value);
}

}  // namespace

void OpenMetrics::Family(const std::string& name, Type type, const std::string& help) {
  const char* kind = type == Type::kGauge ? "gauge" : type == Type::kCounter ? "counter" : "info";
  absl::StrAppend(&text_, "# TYPE ", name, " ", kind, "\n# HELP ", name, " ", Escaped(help), "\n");
  name_ = absl::StrCat(name, type == Type::kCounter ? "_total" : type == Type::kInfo ? "_info" : "");
}

void OpenMetrics::Add(const Labels& labels, double value) {
  const std::string inside = absl::StrJoin(labels, ",", [](std::string* out, const auto& label) {
    absl::StrAppend(out, label.first, "=\"", Escaped(label.second), "\"");
  });
  absl::StrAppend(&text_, name_, inside.empty() ? "" : absl::StrCat("{", inside, "}"), " ", NumberText(value),
                  "\n");
}

void OpenMetrics::Single(const std::string& name, Type type, const std::string& help, double value) {
  Family(name, type, help);
  Add({}, value);
}

std::string OpenMetrics::Text() const { return text_ + "# EOF\n"; }

}  // namespace medley
