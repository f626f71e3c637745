#include "tests/perf/prediction/layer_fit.h"

#include <set>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "coordinator/roofline/calibrate.h"
#include "coordinator/roofline/pass_seconds.h"

namespace medley {
namespace {

struct Llama {
  const char* model;
  int hidden, heads, feed_forward;
};
// Tiny, 3B, 7B, 13B, 33B and 65B, as data/model_stats.json has their hidden sizes and numbers of parameters.
constexpr Llama kLlamas[] = {
    {"deepspeedllama_tiny", 2048, 32, 5632}, {"deepspeedllama_3b", 3200, 32, 8640},
    {"deepspeedllama_7b", 4096, 32, 11008},  {"deepspeedllama_13b", 5120, 40, 13824},
    {"deepspeedllama_33b", 6656, 52, 17920}, {"deepspeedllama_65b", 8192, 64, 22016}};

// A layer over one micro-batch.
struct Point {
  std::string model;
  TrainingRun run;
  double forward_seconds = 0, backward_seconds = 0;
};

std::vector<Point> PointsOf(const std::string& kind, const LayerLibrary& library) {
  std::vector<Point> points;
  for (const auto& [key, layer] : library.layers) {
    const std::vector<std::string> parts = absl::StrSplit(key, ' ');
    if (parts[1] != kind) continue;
    for (const Llama& llama : kLlamas) {
      if (parts[0] != llama.model) continue;
      Point point{.model = llama.model};
      TrainingRun& run = point.run;
      run.shape.model = {.layers = 1,
                         .hidden = llama.hidden,
                         .heads = llama.heads,
                         .feed_forward = llama.feed_forward,
                         .vocabulary = 49152,
                         .family = ModelFamily::kLlama};
      if (!absl::SimpleAtoi(parts[2], &run.shape.sequence)) continue;
      run.fused_attention = true;
      for (size_t i = 0; i < layer.forward_seconds.size() && i < layer.backward_seconds.size(); ++i) {
        run.micro_batch_sequences = static_cast<int>(i) + 1;
        point.forward_seconds = layer.forward_seconds[i];
        point.backward_seconds = layer.backward_seconds[i];
        points.push_back(point);
      }
    }
  }
  return points;
}

Calibration Fit(const DeviceFigures& figures, const std::vector<Point>& points,
                const std::string& without_model) {
  std::vector<Measurement> measurements;
  for (const Point& point : points) {
    if (point.model == without_model) continue;
    const auto pass_of = [&figures, &point](double PassTimes::*pass) {
      return [&figures, &point, pass](const Calibration& at) {
        return RooflineTimes({figures, at}, point.run).layer.*pass;
      };
    };
    measurements.push_back({point.forward_seconds, pass_of(&PassTimes::forward_seconds)});
    measurements.push_back({point.backward_seconds, pass_of(&PassTimes::backward_seconds)});
  }
  return Calibrate({}, measurements);
}

}  // namespace

const std::map<std::string, std::string>& LayerKinds() {
  static const auto& kinds = *new std::map<std::string, std::string>{
      {"A100-40", "a100x40"}, {"A100-80", "a100x80"}, {"A10G-24", "a10g"},   {"H100-NVL-94", "h100-nvl"},
      {"L4-24", "l4"},        {"T4-16", "t4"},        {"V100-16", "v100x16"}};
  return kinds;
}

LayerFit FitLayers(const DeviceFigures& figures, const std::string& library_kind,
                   const LayerLibrary& library) {
  const std::vector<Point> points = PointsOf(library_kind, library);
  LayerFit fit;
  std::set<std::string> models;
  for (const Point& point : points) models.insert(point.model);
  for (const std::string& model : models) {
    const CalibratedDevice device{figures, Fit(figures, points, model)};
    for (const Point& point : points) {
      if (point.model != model) continue;
      fit.errors.push_back(RooflineTimes(device, point.run).layer.Seconds() /
                               (point.forward_seconds + point.backward_seconds) -
                           1);
    }
  }
  fit.of_all = Fit(figures, points, "");
  return fit;
}

}  // namespace medley
