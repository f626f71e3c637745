#pragma once
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/duration_histogram.h"

namespace medley {

// Figures as OpenMetrics text, which Prometheus and others read (https://prometheus.io/docs/specs/om/open_metrics_spec/).
class OpenMetrics {
 public:
  using Labels = std::vector<std::pair<std::string, std::string>>;
  enum class Type { kGauge, kCounter, kHistogram, kInfo };

  // A family; those that follow are its. Names end in their unit ("medley_job_step_seconds") but for counters' "_total", which is added.
  void Family(const std::string& name, Type type, const std::string& help);
  // A figure of the family.
  void Add(const Labels& labels, double value);
  // Of a histogram.
  void AddHistogram(const Labels& labels, const DurationHistogram& durations);
  // A family of one figure, without labels.
  void Single(const std::string& name, Type type, const std::string& help, double value);
  // All of it, ended as it must be.
  std::string Text() const;

  static constexpr char kContentType[] = "application/openmetrics-text; version=1.0.0; charset=utf-8";

 private:
  void AddNamed(const char* ending, const Labels& labels, double value);

  std::string text_, name_;
};

}  // namespace medley
