// Holds Medley's predictor against published step times and memory of hardware that nobody here owns. Prints "key value"
// lines; README.md in this folder says what they mean.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "coordinator/roofline/error_bar.h"
#include "coordinator/roofline/step_prediction.h"
#include "coordinator/wire/device_kind_codec.h"
#include "runtime/base/status_macros.h"
#include "tests/perf/prediction/all_reduce_tables.h"
#include "tests/perf/prediction/cross_validation.h"
#include "tests/perf/prediction/grouped_pipeline.h"
#include "tests/perf/prediction/layer_fit.h"
#include "tests/perf/prediction/published_runs.h"

namespace medley {
namespace {

struct Options {
  std::string data, profiles = "profiles", only, judge;
  bool rows = false, as_shipped = false;
};

// Runs of one kind and one software.
struct Group {
  std::vector<PublishedRun> runs;
  Calibration fitted;
};

class Benchmark {
 public:
  explicit Benchmark(const Options& options) : options_(options) {}

  absl::Status Run() {
    const bool names_table = absl::EndsWith(options_.data, ".csv");
    const std::filesystem::path data(options_.data), folder = names_table ? data.parent_path() : data;
    ASSIGN_OR_RETURN(const std::vector<PublishedRow> rows,
                     ReadPublishedRows(names_table ? data : folder / "validation.csv"));
    absl::StatusOr<LayerLibrary> read_layers = ReadLayerLibrary(folder / "profiles/zorse");
    // A table alone is good for all that needs no measured layers.
    if (absl::IsNotFound(read_layers.status())) {
      std::printf("# no measured layers: %s\n", std::string(read_layers.status().message()).c_str());
      read_layers = LayerLibrary{};
    }
    ASSIGN_OR_RETURN(const LayerLibrary layers, std::move(read_layers));
    for (const PublishedRow& row : rows) {
      if (StudyOf(row) == "zorse") {
        RETURN_IF_ERROR(JudgeGroupedPipeline(row, layers));
      } else {
        Sort(row);
      }
    }
    for (auto& [name, group] : groups_) {
      LeaveOutContradictedMemory(group.runs, excluded_);
      RETURN_IF_ERROR(JudgeGroup(name, group));
    }
    RETURN_IF_ERROR(JudgeMeasuredSums(folder / "profiles/vtrain/trace/a100"));
    if (!options_.judge.empty()) RETURN_IF_ERROR(JudgeUnseen());
    RETURN_IF_ERROR(JudgeLayers(layers));
    RETURN_IF_ERROR(JudgeOtherKinds());
    for (const auto& [name, errors] : errors_) Print(name, errors);
    PrintErrorBar("measured_layers", PredictionBasis::kMeasuredLayers, errors_["zorse"]);
    PrintErrorBar("other_shapes", PredictionBasis::kOtherShapes, of_other_shapes_);
    PrintErrorBar("other_kinds", PredictionBasis::kOtherKinds, of_other_kinds_);
    for (const auto& [reason, count] : excluded_)
      std::printf("# not predicted: %d of %s\n", count, reason.c_str());
    return absl::OkStatus();
  }

 private:
  void Sort(const PublishedRow& row) {
    absl::StatusOr<PublishedRun> run = RunOf(row);
    if (!run.ok()) {
      ++excluded_[absl::StrCat("rows of ", StudyOf(row), ": ", run.status().message())];
      return;
    }
    const std::string name = absl::StrCat(run->kind, ", ", run->software);
    if (absl::StrContains(name, options_.only)) groups_[name].runs.push_back(*std::move(run));
  }

  // Nothing is fitted: layers take what was measured.
  absl::Status JudgeGroupedPipeline(const PublishedRow& row, const LayerLibrary& layers) {
    const absl::StatusOr<double> seconds = GroupedPipelineSeconds(row, layers);
    if (absl::IsFailedPrecondition(seconds.status())) {
      ++excluded_[absl::StrCat("rows of zorse: ", seconds.status().message())];
      return absl::OkStatus();
    }
    RETURN_IF_ERROR(seconds.status());
    const double error = *seconds / row.step_seconds - 1;
    errors_["zorse"].push_back(error);
    errors_["overall"].push_back(error);
    if (options_.rows) {
      std::printf("# record %d: %s on %s: %.4g s, error %+.3f\n", row.record, row.model.c_str(),
                  row.device.c_str(), row.step_seconds, error);
    }
    return absl::OkStatus();
  }

  absl::StatusOr<DeviceKindProfile> ProfileOf(const std::string& kind) {
    const auto known = profiles_.find(kind);
    if (known != profiles_.end()) return known->second;
    ASSIGN_OR_RETURN(const DeviceKindProfile profile,
                     ReadDeviceKind(absl::StrCat(options_.profiles, "/", kind, ".yaml")));
    profiles_[kind] = profile;
    return profile;
  }

  absl::StatusOr<DeviceFigures> FiguresOf(const std::string& kind) {
    ASSIGN_OR_RETURN(const DeviceKindProfile profile, ProfileOf(kind));
    return profile.figures;
  }

  // With the coefficients that profiles/ has, which nothing is fitted for here.
  absl::StatusOr<CrossValidation> AsShipped(const std::vector<PublishedRun>& runs) {
    const std::string& software = runs.front().software;
    ASSIGN_OR_RETURN(const DeviceKindProfile profile, ProfileOf(runs.front().kind));
    const auto learnt = profile.by_software.find(software);
    if (learnt == profile.by_software.end()) {
      return absl::NotFoundError(absl::StrCat(profile.figures.kind, " has no calibration of ", software));
    }
    return Judge({profile.figures, learnt->second.calibration}, runs);
  }

  static int FoldsOf(const Group& group) { return group.runs.size() > 100 ? 5 : 10; }

  absl::Status JudgeGroup(const std::string& name, Group& group) {
    ASSIGN_OR_RETURN(const DeviceFigures figures, FiguresOf(group.runs.front().kind));
    FitStart start;
    const auto predecessor = groups_.find(absl::StrCat(figures.kind, ", ", group.runs.front().predecessor));
    if (predecessor != groups_.end()) start = {predecessor->second.fitted, 0.5};
    ASSIGN_OR_RETURN(const CrossValidation validation,
                     options_.as_shipped ? AsShipped(group.runs)
                                         : CrossValidate(figures, group.runs, FoldsOf(group), start));
    group.fitted = validation.of_all;
    for (size_t i = 0; i < group.runs.size(); ++i) {
      const PublishedRun& run = group.runs[i];
      const double of_seconds = validation.of_seconds[i], of_bytes = validation.of_bytes[i];
      if (!std::isnan(of_seconds)) {
        errors_[run.study].push_back(of_seconds);
        errors_["overall"].push_back(of_seconds);
        of_other_shapes_.push_back(of_seconds);
      }
      if (!std::isnan(of_bytes)) {
        errors_["memory"].push_back(of_bytes);
        errors_[run.study + "_memory"].push_back(of_bytes);
      }
      if (options_.rows) PrintRun(run, of_seconds, of_bytes);
    }
    if (options_.rows) PrintCalibration(name, Mean(validation.of_seconds), group.runs.size(), group.fitted);
    return absl::OkStatus();
  }

  // vTrain's rows once more, where sums on a node take what was measured beside them.
  absl::Status JudgeMeasuredSums(const std::string& tables_folder) {
    absl::StatusOr<std::vector<AllReduceTimes>> tables = ReadAllReduceTables(tables_folder);
    if (absl::IsNotFound(tables.status())) {
      std::printf("# no measured sums: %s\n", std::string(tables.status().message()).c_str());
      return absl::OkStatus();
    }
    RETURN_IF_ERROR(tables.status());
    // What is shipped was fitted without.
    if (options_.as_shipped) return absl::OkStatus();
    for (const auto& [name, group] : groups_) {
      if (group.runs.front().study != "vtrain") continue;
      ASSIGN_OR_RETURN(DeviceFigures figures, FiguresOf(group.runs.front().kind));
      figures.all_reduce = *tables;
      ASSIGN_OR_RETURN(const CrossValidation validation, CrossValidate(figures, group.runs, FoldsOf(group)));
      std::vector<double>& errors = errors_["vtrain_with_measured_sums"];
      std::copy_if(validation.of_seconds.begin(), validation.of_seconds.end(), std::back_inserter(errors),
                   [](double error) { return !std::isnan(error); });
      if (options_.rows) {
        PrintCalibration(name + ", measured sums", Mean(validation.of_seconds), group.runs.size(),
                         validation.of_all);
      }
    }
    return absl::OkStatus();
  }

  // Rows of another table, with what was fitted on all of the first one.
  absl::Status JudgeUnseen() {
    ASSIGN_OR_RETURN(const std::vector<PublishedRow> rows, ReadPublishedRows(options_.judge));
    for (const PublishedRow& row : rows) {
      const absl::StatusOr<PublishedRun> run = RunOf(row);
      if (!run.ok()) continue;
      const auto group = groups_.find(absl::StrCat(run->kind, ", ", run->software));
      if (group == groups_.end()) continue;
      ASSIGN_OR_RETURN(const DeviceFigures figures, FiguresOf(run->kind));
      ASSIGN_OR_RETURN(const CrossValidation judged, Judge({figures, group->second.fitted}, {*run}));
      const double of_seconds = judged.of_seconds[0], of_bytes = judged.of_bytes[0];
      if (!std::isnan(of_seconds)) errors_["unseen_" + run->study].push_back(of_seconds);
      if (!std::isnan(of_bytes)) errors_["unseen_memory"].push_back(of_bytes);
      if (options_.rows) PrintRun(*run, of_seconds, of_bytes);
    }
    return absl::OkStatus();
  }

  // Layers alone, of models that the fit has not seen.
  absl::Status JudgeLayers(const LayerLibrary& layers) {
    for (const auto& [kind, library_kind] : LayerKinds()) {
      const std::string name = kind + ", layers of zorse";
      if (!absl::StrContains(name, options_.only)) continue;
      ASSIGN_OR_RETURN(const DeviceFigures figures, FiguresOf(kind));
      const LayerFit fit = FitLayers(figures, library_kind, layers);
      if (fit.errors.empty()) continue;
      errors_["layers"].insert(errors_["layers"].end(), fit.errors.begin(), fit.errors.end());
      if (options_.rows) PrintCalibration(name, Mean(fit.errors), fit.errors.size(), fit.of_all);
    }
    return absl::OkStatus();
  }

  // What a data sheet alone gives: each run by its own figures and the coefficients of every other kind.
  absl::Status JudgeOtherKinds() {
    for (const auto& [name, group] : groups_) {
      if (group.runs.size() > 100) continue;
      ASSIGN_OR_RETURN(const DeviceFigures figures, FiguresOf(group.runs.front().kind));
      for (const auto& [other_name, other] : groups_) {
        // "A100-40" and "A100-80" are one kind but for their memory.
        if (figures.kind.substr(0, 4) == other.runs.front().kind.substr(0, 4)) continue;
        for (const PublishedRun& run : group.runs) {
          if (run.step_seconds <= 0) continue;
          ASSIGN_OR_RETURN(const double seconds, RooflineStepSeconds({figures, other.fitted}, run.run));
          of_other_kinds_.push_back(seconds / run.step_seconds - 1);
        }
      }
    }
    return absl::OkStatus();
  }

  // Of those that are numbers.
  static double Mean(const std::vector<double>& errors) {
    double sum = 0;
    int count = 0;
    for (const double error : errors) {
      if (std::isnan(error)) continue;
      sum += std::abs(error);
      ++count;
    }
    return count > 0 ? sum / count : 0;
  }

  static void PrintCalibration(const std::string& name, double error_mean, size_t rows,
                               const Calibration& calibration) {
    std::printf("# %s, %zu rows, mean error %.4f: {", name.c_str(), rows, error_mean);
    const char* separator = "";
    for (const Coefficient& coefficient : kCoefficients) {
      const double value = calibration.*coefficient.value;
      // What measurements say nothing about stays at its default.
      if (std::abs(value / (Calibration{}.*coefficient.value) - 1) < 1e-3) continue;
      std::printf("%s%s: %.4g", separator, coefficient.name, value);
      separator = ", ";
    }
    std::printf("}\n");
  }

  static void PrintRun(const PublishedRun& published, double of_seconds, double of_bytes) {
    const TrainingRun& run = published.run;
    std::printf(
        "# record %d: %d layers of %d, %d micro-batches of %d, %d ranks x %d stages of %d chunks x %d "
        "replicas: %.4g s, "
        "error %+.3f; %.4g GiB, error %+.3f\n",
        published.record, run.shape.model.layers, run.shape.model.hidden, run.MicroBatches(),
        run.micro_batch_sequences, run.ranks, run.stages, run.chunks_per_stage, run.replicas,
        published.step_seconds, of_seconds, published.memory_gibibytes, of_bytes);
  }

  static void Print(const std::string& name, std::vector<double> errors) {
    if (errors.empty()) return;
    for (double& error : errors) error = std::abs(error);
    std::sort(errors.begin(), errors.end());
    std::printf("%s_error_mean %.4f\n", name.c_str(), Mean(errors));
    std::printf("%s_error_median %.4f\n", name.c_str(), errors[errors.size() / 2]);
    std::printf("%s_error_worst %.4f\n", name.c_str(), errors.back());
    std::printf("%s_rows %zu\n", name.c_str(), errors.size());
  }

  static void PrintErrorBar(const std::string& name, PredictionBasis basis,
                            const std::vector<double>& errors) {
    const ErrorBar bar = ErrorBarOf(errors, LearntErrorBar(basis));
    std::printf("error_bar_%s_usual %.3f\nerror_bar_%s_wide %.3f\n", name.c_str(), bar.usual, name.c_str(),
                bar.wide);
  }

  const Options options_;
  std::map<std::string, Group> groups_;
  std::map<std::string, DeviceKindProfile> profiles_;  // by kind
  std::map<std::string, std::vector<double>> errors_;  // by study
  std::vector<double> of_other_shapes_, of_other_kinds_;
  std::map<std::string, int> excluded_;
};

}  // namespace
}  // namespace medley

int main(int count, char** arguments) {
  medley::Options options;
  for (int i = 1; i < count; ++i) {
    const auto value_of = [&](const char* name) {
      return std::strcmp(arguments[i], name) == 0 && i + 1 < count ? arguments[++i] : nullptr;
    };
    if (const char* data = value_of("--data")) {
      options.data = data;
    } else if (const char* profiles = value_of("--profiles")) {
      options.profiles = profiles;
    } else if (const char* judge = value_of("--judge")) {
      options.judge = judge;
    } else if (const char* only = value_of("--only")) {
      options.only = only;
    } else if (std::strcmp(arguments[i], "--as-shipped") == 0) {
      options.as_shipped = true;
    } else if (std::strcmp(arguments[i], "--rows") == 0) {
      options.rows = true;
    } else {
      std::fprintf(stderr,
                   "%s: allowed are --data DIR (with validation.csv) or TABLE.csv, --profiles DIR, --only "
                   "PART of \"KIND, "
                   "SOFTWARE\", "
                   "--rows\n",
                   arguments[i]);
      return 2;
    }
  }
  if (options.data.empty()) {
    std::fprintf(stderr, "--data is missing: the folder with validation.csv, or such a table\n");
    return 2;
  }
  const absl::Status status = medley::Benchmark(options).Run();
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
