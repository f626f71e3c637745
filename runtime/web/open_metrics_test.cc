#include "runtime/web/open_metrics.h"

#include <catch2/catch.hpp>
#include <limits>

namespace medley {
namespace {

TEST_CASE("figures are written as OpenMetrics has them") {
  OpenMetrics metrics;
  metrics.Family("medley_jobs", OpenMetrics::Type::kGauge, "Jobs by state.");
  metrics.Add({{"state", "running"}}, 2);
  metrics.Add({{"state", "do\"ne\\\n"}}, 0);
  metrics.Single("medley_refused_calls", OpenMetrics::Type::kCounter, "Calls that were refused.", 1.5);
  metrics.Family("medley_build", OpenMetrics::Type::kInfo, "The program.");
  metrics.Add({{"version", "1"}}, 1);
  CHECK(metrics.Text() ==
        "# TYPE medley_jobs gauge\n# HELP medley_jobs Jobs by state.\n"
        "medley_jobs{state=\"running\"} 2\nmedley_jobs{state=\"do\\\"ne\\\\\\n\"} 0\n"
        "# TYPE medley_refused_calls counter\n# HELP medley_refused_calls Calls that were "
        "refused.\nmedley_refused_calls_total 1.5\n"
        "# TYPE medley_build info\n# HELP medley_build The program.\nmedley_build_info{version=\"1\"} 1\n# "
        "EOF\n");
}

TEST_CASE("a histogram counts what is not above each bound") {
  OpenMetrics metrics;
  metrics.Family("d_seconds", OpenMetrics::Type::kHistogram, "");
  DurationHistogram durations;
  for (const double seconds : {0.5, 0.25, 2.0, 200.0, 300.0}) durations.Add(seconds);
  metrics.AddHistogram({{"m", "x"}}, durations);
  CHECK_THAT(
      metrics.Text(),
      Catch::Contains("d_seconds_bucket{m=\"x\",le=\"0.1\"} 0\nd_seconds_bucket{m=\"x\",le=\"0.5\"} 2\n"
                      "d_seconds_bucket{m=\"x\",le=\"1\"} 2\nd_seconds_bucket{m=\"x\",le=\"10\"} 3\n"
                      "d_seconds_bucket{m=\"x\",le=\"100\"} 3\nd_seconds_bucket{m=\"x\",le=\"+Inf\"} 5\n"
                      "d_seconds_count{m=\"x\"} 5\nd_seconds_sum{m=\"x\"} 502.75\n"));
}

TEST_CASE("numbers that are none are said so") {
  OpenMetrics metrics;
  const double infinity = std::numeric_limits<double>::infinity();
  metrics.Family("a", OpenMetrics::Type::kGauge, "");
  for (const double value : {std::numeric_limits<double>::quiet_NaN(), infinity, -infinity})
    metrics.Add({}, value);
  CHECK_THAT(metrics.Text(), Catch::Contains("a NaN\na +Inf\na -Inf\n"));
}

}  // namespace
}  // namespace medley
