#include "runtime/plan/plan.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/model/parameters.h"

namespace medley {

Position PositionOf(const Plan& plan, int unit) {
  int first_micro_batch = 0, first_sequence = 0;
  for (int r = 0; r < static_cast<int>(plan.routes.size()); ++r) {
    const Route& route = plan.routes[r];
    for (int s = 0; s < static_cast<int>(route.units.size()); ++s) {
      if (route.units[s] == unit) {
        return {.route = r,
                .stage = s,
                .stages = static_cast<int>(route.units.size()),
                .first_micro_batch = first_micro_batch,
                .micro_batches = route.micro_batches,
                .micro_batch_sequences = route.micro_batch_sequences,
                .first_sequence = first_sequence};
      }
    }
    first_micro_batch += route.micro_batches;
    first_sequence += route.micro_batches * route.micro_batch_sequences;
  }
  return {};
}

std::vector<int> HoldersOf(const Plan& plan, const ModelConfig& config, int segment) {
  std::vector<int> holders;
  for (int u = 0; u < static_cast<int>(plan.units.size()); ++u) {
    const BlockRange& blocks = plan.units[u].blocks;
    const bool holds = segment == kTiedSegment
                           ? blocks.contains(config.embedding_block()) || blocks.contains(config.head_block())
                           : blocks.contains(segment - 1);
    if (holds) holders.push_back(u);
  }
  return holders;
}

std::string NameOf(Schedule schedule) { return schedule == Schedule::kGPipe ? "gpipe" : "1f1b"; }

std::vector<int> MicroBatchSizesOf(const Plan& plan) {
  std::set<int> sizes;
  for (const Route& route : plan.routes) sizes.insert(route.micro_batch_sequences);
  return {sizes.begin(), sizes.end()};
}

std::string Describe(const Plan& plan) {
  const std::vector<int> sizes = MicroBatchSizesOf(plan);
  std::string text = absl::StrCat(plan.routes.size(), plan.routes.size() == 1 ? " route" : " routes",
                                  sizes.size() == 1 ? ", micro-batch " : ", micro-batches ", absl::StrJoin(sizes, ", "), ", ",
                                  NameOf(plan.schedule), ": ");
  const char* route_separator = "";
  for (const Route& route : plan.routes) {
    absl::StrAppend(&text, route_separator, "[");
    const char* separator = "";
    for (const int u : route.units) {
      const Unit& unit = plan.units[u];
      absl::StrAppend(&text, separator, unit.device, " blocks ", unit.blocks.first, "-", unit.blocks.end - 1);
      separator = " -> ";
    }
    absl::StrAppend(&text, "] x ", route.micro_batches);
    if (sizes.size() > 1) absl::StrAppend(&text, " of ", route.micro_batch_sequences);
    route_separator = " | ";
  }
  return text;
}

}  // namespace medley
