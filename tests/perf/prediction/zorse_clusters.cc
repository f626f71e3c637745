// Plans the clusters on which Zorse was published (arXiv 2507.10392, table 5) from its own measurements of layers and links,
// and holds what is predicted of our plans against what it reached.
//   zorse_clusters DIR    DIR has profiles/zorse and validation.csv
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "coordinator/planner/planner.h"
#include "runtime/base/status_macros.h"
#include "tests/perf/prediction/grouped_pipeline.h"
#include "tests/perf/prediction/published_rows.h"

namespace medley {
namespace {

struct Node {
  std::string kind;  // as the measurements name it
  int devices = 0;
  Bytes memory;                     // of a device
  double memory_bytes_per_second;   // by its data sheet: what updates go by
  double within_bytes_per_second;   // between its devices, as published
  double outside_bytes_per_second;  // to other nodes, as published
  // Between a device and host memory: three quarters of its bus by its data sheet. Nobody published what the nodes reach.
  double copy_bytes_per_second;
};

const std::vector<Node> kClusterA = {{"a100x80", 8, GiB(80), 2e12, 222e9, 6.25e9, 24e9},
                                     {"a100x80", 8, GiB(80), 2e12, 222e9, 6.25e9, 24e9},
                                     {"h100-nvl", 2, GiB(94), 3.9e12, 222e9, 6.25e9, 24e9},
                                     {"h100-nvl", 2, GiB(94), 3.9e12, 222e9, 6.25e9, 24e9}};
const std::vector<Node> kClusterB = {{"a100x40", 8, GiB(40), 1.55e12, 222e9, 11.8e9, 24e9},
                                     {"a10g", 8, GiB(24), 0.6e12, 3e9, 11.8e9, 24e9},
                                     {"a10g", 8, GiB(24), 0.6e12, 3e9, 11.8e9, 24e9},
                                     {"v100x16", 8, GiB(16), 0.9e12, 23.9e9, 3.1e9, 12e9},
                                     {"v100x16", 8, GiB(16), 0.9e12, 23.9e9, 3.1e9, 12e9},
                                     {"t4", 8, GiB(16), 0.32e12, 6.1e9, 11.8e9, 12e9},
                                     {"t4", 8, GiB(16), 0.32e12, 6.1e9, 11.8e9, 12e9},
                                     {"t4", 8, GiB(16), 0.32e12, 6.1e9, 11.8e9, 12e9}};
constexpr int kVocabulary = 49152;
constexpr double kLatencySeconds = 3e-5;
// Adam in f32: gradient, value and both moments are read, all but the gradient written, and the copy for products.
constexpr double kUpdateBytes = 30, kNormBytes = 4;
constexpr double kSystemPart = 0.06;  // of a device's memory that is the system's

std::string KindModel(const PublishedRow& row) {
  std::string size = row.model.substr(row.model.rfind(' ') + 1);
  for (char& c : size) c = static_cast<char>(std::tolower(c));
  return absl::StrCat("deepspeedllama_", size);
}

// FailedPrecondition: something was not measured.
absl::StatusOr<PlanningProblem> ProblemOf(const PublishedRow& row, const std::vector<Node>& nodes,
                                          const LayerLibrary& library) {
  const std::string model = KindModel(row);
  const auto parameters = library.layer_parameters.find(model);
  if (parameters == library.layer_parameters.end())
    return absl::FailedPreconditionError(absl::StrCat("nothing is known of ", model));
  const double hidden = row.hidden;
  PlanningProblem problem;
  problem.shape.model = {.layers = row.layers,
                         .hidden = row.hidden,
                         .heads = row.heads,
                         .feed_forward = static_cast<int>((parameters->second / hidden - 4 * hidden) / 3),
                         .vocabulary = kVocabulary,
                         .context = row.sequence};
  problem.shape.model.family = ModelFamily::kLlama;
  problem.shape.sequence = row.sequence;
  problem.shape.global_batch_sequences = row.global_batch;
  problem.precision = Precision::kBf16;
  problem.constraints.saves_memory = true;
  problem.constraints.synthesised_orders = true;
  size_t most = 16;  // micro-batches that were measured on all kinds
  for (const Node& node : nodes) {
    const auto layer = library.layers.find(absl::StrCat(model, " ", node.kind, " ", row.sequence));
    if (layer == library.layers.end()) {
      return absl::FailedPreconditionError(
          absl::StrCat("no layer of ", model, " was measured on ", node.kind, " at ", row.sequence));
    }
    most = std::min({most, layer->second.forward_seconds.size(), layer->second.backward_seconds.size()});
  }
  for (const int size : {1, 2, 4, 8, 16})
    if (size <= static_cast<int>(most)) problem.micro_batch_sizes.push_back(size);

  std::vector<std::string> kinds;
  std::vector<int> ends, hosts;
  for (size_t host = 0; host < nodes.size(); ++host) {
    const Node& node = nodes[host];
    const MeasuredLayer& layer = library.layers.at(absl::StrCat(model, " ", node.kind, " ", row.sequence));
    const auto known = std::find(kinds.begin(), kinds.end(), node.kind);
    const int end = static_cast<int>(known - kinds.begin());
    if (known == kinds.end()) kinds.push_back(node.kind);
    for (int d = 0; d < node.devices; ++d) {
      DeviceCost cost{.name = absl::StrCat(node.kind, "-", host, "/", d),
                      .kind = node.kind,
                      .processor = static_cast<int>(problem.devices.size()),
                      .host = static_cast<int>(host),
                      .network_cards = 1,
                      .room = {.memory = node.memory, .copy_bytes_per_parameter = 2},
                      .activations = Dtype::kBf16};
      cost.room.workspace = {static_cast<int64_t>(kSystemPart * static_cast<double>(node.memory.value))};
      cost.update_seconds_per_parameter = kUpdateBytes / node.memory_bytes_per_second;
      cost.norm_seconds_per_parameter = kNormBytes / node.memory_bytes_per_second;
      cost.fetch_bytes_per_second = cost.store_bytes_per_second = node.copy_bytes_per_second;
      cost.host_memory = node.devices * node.memory;  // nodes have more
      for (const int size : problem.micro_batch_sizes) {
        const double forward = layer.forward_seconds[size - 1], backward = layer.backward_seconds[size - 1];
        // The head's product goes as fast as those of a layer.
        const double head = forward * kVocabulary * hidden / parameters->second;
        cost.times.push_back(
            {{1e-4 * size, 1e-4 * size}, {forward, backward, backward / 2}, {head, 2 * head, head}});
      }
      problem.devices.push_back(std::move(cost));
      ends.push_back(end);
      hosts.push_back(static_cast<int>(host));
    }
  }
  problem.links = DeviceLinks(ends, hosts, static_cast<int>(kinds.size()));
  for (const Node& a : nodes) {
    const int end_a = static_cast<int>(std::find(kinds.begin(), kinds.end(), a.kind) - kinds.begin());
    const LinkModel within = LinkModel::Line(kLatencySeconds, a.within_bytes_per_second);
    problem.links.SetWithinHosts(end_a, end_a, {within, within});
    for (const Node& b : nodes) {
      const int end_b = static_cast<int>(std::find(kinds.begin(), kinds.end(), b.kind) - kinds.begin());
      const LinkModel between =
          LinkModel::Line(kLatencySeconds, std::min(a.outside_bytes_per_second, b.outside_bytes_per_second));
      problem.links.SetBetweenHosts(end_a, end_b, {between, between});
    }
  }
  return problem;
}

// By the name of the system, "cluster A 13B": seconds of its step, as published.
using Published = std::map<std::string, std::map<std::string, double>>;

void Report(const PublishedRow& row, const std::string& name, const LayerLibrary& library,
            const std::map<std::string, double>& published) {
  const absl::StatusOr<PlanningProblem> problem =
      ProblemOf(row, absl::StrContains(row.note, "cluster A") ? kClusterA : kClusterB, library);
  if (!problem.ok()) {
    std::printf("# %s: %s\n", name.c_str(), std::string(problem.status().message()).c_str());
    return;
  }
  const std::clock_t start = std::clock();
  const absl::StatusOr<ChosenPlan> chosen = ChoosePlan(*problem);
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  if (!chosen.ok()) {
    std::printf("# %s: %s\n", name.c_str(), std::string(chosen.status().message()).c_str());
    return;
  }
  std::printf("zorse_seconds_%s %.1f\n", name.c_str(), seconds);
  std::printf("zorse_step_seconds_%s %.2f\n", name.c_str(), chosen->step_seconds);
  for (const auto& [system, step_seconds] : published)
    std::printf("vs_%s_%s %.3f\n", system.c_str(), name.c_str(), step_seconds / chosen->step_seconds);
  std::printf("# %s: %s\n", name.c_str(), Describe(chosen->plan).c_str());
}

absl::Status Run(const std::string& folder) {
  ASSIGN_OR_RETURN(const std::vector<PublishedRow> rows, ReadPublishedRows(folder + "/validation.csv"));
  ASSIGN_OR_RETURN(const LayerLibrary library, ReadLayerLibrary(folder + "/profiles/zorse"));
  Published published;
  std::map<std::string, PublishedRow> of_zorse;
  for (const PublishedRow& row : rows) {
    if (!absl::StrContains(row.source, "2507.10392") || row.step_seconds <= 0) continue;
    const bool is_a = absl::StrContains(row.note, "cluster A");
    if (!is_a && !absl::StrContains(row.note, "cluster B")) continue;
    const std::string name = absl::StrCat(is_a ? "a_" : "b_", row.model.substr(row.model.rfind(' ') + 1));
    for (const char* system : {"Zorse", "TorchTitan-Het", "HexiScale", "Cephalo"}) {
      if (absl::StrContains(row.note, absl::StrCat("system ", system)))
        published[name][system] = row.step_seconds;
    }
    if (absl::StrContains(row.note, "system Zorse")) of_zorse[name] = row;
  }
  for (const auto& [name, row] : of_zorse) Report(row, name, library, published[name]);
  std::printf("# cluster C: not planned, none of its devices, links and step times is in the data\n");
  return absl::OkStatus();
}

}  // namespace
}  // namespace medley

int main(int count, char** arguments) {
  if (count != 2) {
    std::fprintf(stderr, "usage: zorse_clusters DIR   with profiles/zorse and validation.csv\n");
    return 2;
  }
  const absl::Status ran = medley::Run(arguments[1]);
  if (!ran.ok()) std::fprintf(stderr, "%s\n", std::string(ran.message()).c_str());
  return ran.ok() ? 0 : 1;
}
