#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

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
  // Of a histogram: how many values were not above each of `bounds` but above the one before, and at the end how many above them all; and
  // their sum.
  void AddHistogram(const Labels& labels, const std::vector<double>& bounds,
                    const std::vector<uint64_t>& counts, double sum);
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
