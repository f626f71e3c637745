#include "tests/perf/prediction/grouped_pipeline.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "coordinator/predictor/predict.h"
#include "runtime/base/status_macros.h"
#include "runtime/wire/yaml_message.h"

namespace medley {
namespace {

struct Group {
  std::string kind;
  int devices = 0;
  // Of a ring over the group, one way: the slowest of its links, as published.
  double bytes_per_second = 0;
};

// The clusters of the publication, a pipeline stage each group: of A a node, of B a kind.
const std::vector<Group> kClusterA = {
    {"a100x80", 8, 222e9}, {"a100x80", 8, 222e9}, {"h100-nvl", 2, 222e9}, {"h100-nvl", 2, 222e9}};
const std::vector<Group> kClusterB = {
    {"a100x40", 8, 222e9}, {"a10g", 16, 3e9}, {"v100x16", 16, 3.1e9}, {"t4", 24, 6.1e9}};
constexpr double kBytesPerSecondBetweenGroups = 6e9;
constexpr int kVocabulary = 49152;

// What a group takes for one layer in a step, but for what it waits for.
struct GroupCost {
  double forward_seconds = 0, backward_seconds = 0;  // of all micro-batches, on each of its devices
  double parameter_seconds = 0;                      // gathered twice in 16 bits, gradients scattered in 32
  double Seconds() const { return forward_seconds + backward_seconds + parameter_seconds; }
};

// How many times a group takes a range of layers, as the publication says of its plans.
int RangesOf(const PublishedRow& row) {
  if (!absl::StrContains(row.note, "cluster B")) return 1;
  return absl::StrContains(row.model, "13B") ? 4 : absl::StrContains(row.model, "33B") ? 6 : 1;
}

// Layers of each group in one turn, at least one each, so that the slowest is as fast as can be.
std::vector<int> LayersOfGroups(const std::vector<GroupCost>& costs, int layers) {
  std::vector<int> of_groups(costs.size(), 1);
  for (int left = layers - static_cast<int>(costs.size()); left > 0; --left) {
    int best = 0;
    for (int g = 1; g < static_cast<int>(costs.size()); ++g) {
      if ((of_groups[g] + 1) * costs[g].Seconds() < (of_groups[best] + 1) * costs[best].Seconds()) best = g;
    }
    ++of_groups[best];
  }
  return of_groups;
}

std::string KeyOf(const std::string& model, const std::string& kind, int sequence) {
  return absl::StrCat(model, " ", kind, " ", sequence);
}

// What each group takes for a layer. FailedPrecondition: it was not measured.
absl::StatusOr<std::vector<GroupCost>> CostsOf(const PublishedRow& row, const std::vector<Group>& groups,
                                               const std::string& model, const LayerLibrary& library) {
  std::vector<GroupCost> costs;
  for (const Group& group : groups) {
    const auto layer = library.layers.find(KeyOf(model, group.kind, row.sequence));
    const auto parameters = library.layer_parameters.find(model);
    if (layer == library.layers.end() || parameters == library.layer_parameters.end() ||
        layer->second.forward_seconds.empty() || layer->second.backward_seconds.empty()) {
      return absl::FailedPreconditionError("a layer was not measured on one of its kinds");
    }
    // Micro-batches of one sequence: what is not said, and needs least memory.
    const double sequences = 1.0 * row.global_batch / group.devices;
    const double forward = layer->second.forward_seconds.front() * sequences;
    const double backward = layer->second.backward_seconds.front() * sequences;
    const double bytes = (2 * 2 + 4) * parameters->second * (group.devices - 1) / group.devices;
    // The forward is made again before the backward.
    costs.push_back({forward, forward + backward, bytes / group.bytes_per_second});
  }
  return costs;
}

// Each group as one device, which takes a wave of the batch at a time.
PlanningProblem ProblemOf(const PublishedRow& row, const std::vector<GroupCost>& costs, int waves,
                          double message_seconds) {
  PlanningProblem problem;
  problem.shape.model = {.layers = row.layers,
                         .hidden = row.hidden,
                         .heads = row.heads,
                         .feed_forward = 4 * row.hidden,
                         .vocabulary = kVocabulary,
                         .context = row.sequence};
  problem.shape.sequence = row.sequence;
  problem.shape.global_batch_sequences = waves;
  problem.micro_batch_sizes = {1};
  for (const GroupCost& cost : costs) {
    // Gathered before the forward and before the backward; scattered, twice as wide, after it.
    const double forward = (cost.forward_seconds + cost.parameter_seconds / 4) / waves;
    const double backward = (cost.backward_seconds + 3 * cost.parameter_seconds / 4) / waves;
    // The head's product goes as fast as those of the group's layers.
    const double head_layers = kVocabulary / (12.0 * row.hidden);
    const double head_forward = head_layers * cost.forward_seconds / waves;
    const int group = static_cast<int>(problem.devices.size());
    problem.devices.push_back(
        {.name = absl::StrCat("group", group),
         .processor = group,
         .activations = Dtype::kBf16,
         .times = {{.layer = {forward, backward}, .head = {head_forward, 2 * head_forward}}}});
  }
  const LinkModel line = LinkModel::Line(message_seconds, std::numeric_limits<double>::infinity());
  problem.links = DeviceLinks(static_cast<int>(costs.size()), {line, {}});
  return problem;
}

// Groups take ranges of layers in turns, `ranges` times each.
Plan PlanOf(const PublishedRow& row, const std::vector<GroupCost>& costs, int waves, int ranges) {
  Plan plan{.schedule = ranges > 1 ? Schedule::kInterleavedGPipe : Schedule::kGPipe};
  for (size_t g = 0; g < costs.size(); ++g) {
    plan.units.push_back({.devices = {absl::StrCat("group", g)}, .activations = Dtype::kBf16});
  }
  Route route{.micro_batches = waves, .micro_batch_sequences = 1};
  BlockId next = 0;
  for (int range = 0; range < ranges; ++range) {
    const int layers = row.layers / ranges + (range < row.layers % ranges ? 1 : 0);
    const std::vector<int> of_groups = LayersOfGroups(costs, layers);
    for (size_t g = 0; g < costs.size(); ++g) {
      const bool last = range == ranges - 1 && g + 1 == costs.size();
      const BlockId end = next + of_groups[g] + (next == 0 ? 1 : 0) + (last ? 1 : 0);
      plan.units[g].chunks.push_back({next, end});
      route.units.push_back(static_cast<int>(g));
      next = end;
    }
  }
  plan.routes = {route};
  return plan;
}

// Milliseconds in a JSON array, those that are numbers.
std::vector<double> SecondsOf(const nlohmann::json& milliseconds) {
  std::vector<double> seconds;
  for (const nlohmann::json& value : milliseconds) {
    if (value.is_number()) seconds.push_back(value.get<double>() / 1e3);
  }
  return seconds;
}

}  // namespace

absl::StatusOr<LayerLibrary> ReadLayerLibrary(const std::string& folder) {
  ASSIGN_OR_RETURN(const std::string latencies_text, ReadDocumentFile(folder + "/data/model_latencies.json"));
  ASSIGN_OR_RETURN(const std::string stats_text, ReadDocumentFile(folder + "/data/model_stats.json"));
  const nlohmann::json latencies = nlohmann::json::parse(latencies_text, nullptr, /*allow_exceptions=*/false);
  const nlohmann::json stats = nlohmann::json::parse(stats_text, nullptr, /*allow_exceptions=*/false);
  if (!latencies.is_object() || !stats.is_object()) {
    return absl::InvalidArgumentError(folder + ": its files are not JSON objects");
  }
  LayerLibrary library;
  for (const auto& [model, statistics] : stats.items()) {
    const auto parameters = statistics.find("parameters_per_layer");
    if (parameters != statistics.end() && parameters->is_number())
      library.layer_parameters[model] = *parameters;
  }
  for (const auto& [model, kinds] : latencies.items()) {
    for (const auto& [kind, sequences] : kinds.items()) {
      for (const auto& [sequence, types] : sequences.items()) {
        const auto measured = types.find("float16");
        // Lines alone, or a line and points of each pass.
        if (measured == types.end() || measured->size() < 4 || !(*measured)[2].is_array()) continue;
        MeasuredLayer& layer = library.layers[absl::StrCat(model, " ", kind, " ", sequence)];
        layer = {SecondsOf((*measured)[2]), SecondsOf((*measured)[3])};
      }
    }
  }
  return library;
}

absl::StatusOr<double> GroupedPipelineSeconds(const PublishedRow& row, const LayerLibrary& library) {
  if (!absl::StrContains(row.note, "system Zorse")) {
    return absl::FailedPreconditionError("a plan of another system, which is not published");
  }
  const bool is_a = absl::StrContains(row.note, "cluster A");
  if (!is_a && !absl::StrContains(row.note, "cluster B")) {
    return absl::FailedPreconditionError("a cluster whose nodes are not known");
  }
  if (row.step_seconds <= 0) return absl::FailedPreconditionError("no time is said");
  // "Llama 13B"
  const std::string model =
      absl::AsciiStrToLower(absl::StrCat("deepspeedllama_", row.model.substr(row.model.rfind(' ') + 1)));
  const std::vector<Group>& groups = is_a ? kClusterA : kClusterB;
  ASSIGN_OR_RETURN(std::vector<GroupCost> costs, CostsOf(row, groups, model, library));
  // The last stage has the head, too: the fastest group.
  std::sort(costs.begin(), costs.end(),
            [](const GroupCost& a, const GroupCost& b) { return a.Seconds() > b.Seconds(); });

  const int ranges = RangesOf(row);
  int most_devices = 0;
  for (const Group& group : groups) most_devices = std::max(most_devices, group.devices);
  // As many sequences at a time as the largest group has devices; smaller ones take several turns for them.
  const int waves = (row.global_batch + most_devices - 1) / most_devices;
  const double message = 2.0 * most_devices * row.sequence * row.hidden / kBytesPerSecondBetweenGroups;
  return PredictStepSeconds(ProblemOf(row, costs, waves, message), PlanOf(row, costs, waves, ranges));
}

}  // namespace medley
