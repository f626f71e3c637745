// Holds Medley's predictor against published step times of hardware that nobody here owns: `--data DIR` has the table.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/perf/prediction/cross_validation.h"
#include "tests/perf/prediction/published_runs.h"

namespace medley {
namespace {

DeviceLibrary BuiltIn() {
  DeviceLibrary library;
  library["A100-40"] = {"A100-40", 312e12, 1.555e12, 300e9, GiB(40)};
  library["A100-80"] = {"A100-80", 312e12, 2.039e12, 300e9, GiB(80)};
  library["H100-80"] = {"H100-80", 989e12, 3.35e12, 450e9, GiB(80)};
  library["GH200-96"] = {"GH200-96", 989e12, 4.0e12, 450e9, GiB(96)};
  return library;
}

double Mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += std::abs(value);
  return sum / static_cast<double>(values.size());
}

void Print(const std::string& name, std::vector<double> errors) {
  if (errors.empty()) return;
  for (double& error : errors) error = std::abs(error);
  std::sort(errors.begin(), errors.end());
  std::printf("%s_error_mean %.4f\n", name.c_str(), Mean(errors));
  std::printf("%s_error_median %.4f\n", name.c_str(), errors[errors.size() / 2]);
  std::printf("%s_error_worst %.4f\n", name.c_str(), errors.back());
  std::printf("%s_rows %zu\n", name.c_str(), errors.size());
}

int Run(const std::string& data, bool verbose) {
  const absl::StatusOr<std::vector<PublishedRow>> rows = ReadPublishedRows(data + "/validation.csv");
  if (!rows.ok()) {
    std::fprintf(stderr, "%s\n", rows.status().ToString().c_str());
    return 1;
  }
  const DeviceLibrary library = BuiltIn();
  std::map<std::string, std::vector<PublishedRun>> groups;
  std::map<std::string, int> excluded;
  for (const PublishedRow& row : *rows) {
    absl::StatusOr<PublishedRun> run = RunOf(row);
    if (!run.ok()) {
      ++excluded[absl::StrCat(StudyOf(row), ": ", run.status().message())];
    } else {
      groups[run->kind + ", " + run->software].push_back(*std::move(run));
    }
  }
  std::map<std::string, std::vector<double>> errors;
  for (const auto& [name, runs] : groups) {
    if (getenv("ONLY") && name.find(getenv("ONLY")) == std::string::npos) continue;
    const DeviceFigures& figures = library.at(runs.front().kind);
    const absl::StatusOr<CrossValidation> validation =
        CrossValidate(figures, runs, runs.size() > 100 ? 5 : 30);
    if (!validation.ok()) {
      std::fprintf(stderr, "%s: %s\n", name.c_str(), validation.status().ToString().c_str());
      return 1;
    }
    std::printf("# %s: %zu rows\n", name.c_str(), runs.size());
    for (const Coefficient& coefficient : kCoefficients) {
      std::printf("#   %s %.4g\n", coefficient.name, validation->of_all.*coefficient.value);
    }
    for (size_t i = 0; i < runs.size(); ++i) {
      const double of_seconds = validation->of_seconds[i], of_bytes = validation->of_bytes[i];
      if (!std::isnan(of_seconds)) {
        errors[runs[i].study].push_back(of_seconds);
        errors["overall"].push_back(of_seconds);
      }
      if (!std::isnan(of_bytes)) {
        errors[runs[i].study + "_memory"].push_back(of_bytes);
        errors["memory"].push_back(of_bytes);
      }
      if (verbose) {
        const TrainingRun& run = runs[i].run;
        std::printf(
            "#   line %d: %d layers of %d, micro-batch %d x %d, %d x %d x %d of %d: %.4g s, error %+.3f; "
            "%.4g GiB, error %+.3f\n",
            runs[i].line, run.shape.model.layers, run.shape.model.hidden, run.micro_batch_sequences,
            run.MicroBatches(), run.ranks, run.stages, run.replicas, run.chunks_per_stage,
            runs[i].step_seconds, of_seconds, runs[i].memory_gibibytes, of_bytes);
      }
    }
  }
  for (const auto& [study, of_study] : errors) Print(study, of_study);
  for (const auto& [reason, count] : excluded)
    std::printf("# not predicted, %d rows of %s\n", count, reason.c_str());
  return 0;
}

}  // namespace
}  // namespace medley

int main(int count, char** arguments) {
  std::string data;
  bool verbose = false;
  for (int i = 1; i < count; ++i) {
    if (std::strcmp(arguments[i], "--data") == 0 && i + 1 < count) {
      data = arguments[++i];
    } else if (std::strcmp(arguments[i], "--rows") == 0) {
      verbose = true;
    } else {
      std::fprintf(stderr,
                   "%s: unknown; --data DIR (the folder with validation.csv) and --rows are allowed\n",
                   arguments[i]);
      return 2;
    }
  }
  if (data.empty()) {
    std::fprintf(stderr, "--data DIR is required: the folder with validation.csv\n");
    return 2;
  }
  return medley::Run(data, verbose);
}
