#include "runtime/plan/plan.h"

#include "absl/strings/str_cat.h"
#include "runtime/model/parameters.h"

namespace medley {

Position PositionOf(const Plan& plan, int unit) {
  int first_micro_batch = 0;
  for (int r = 0; r < static_cast<int>(plan.routes.size()); ++r) {
    const Route& route = plan.routes[r];
    for (int s = 0; s < static_cast<int>(route.units.size()); ++s) {
      if (route.units[s] == unit) {
        return {r, s, static_cast<int>(route.units.size()), first_micro_batch, route.micro_batches};
      }
    }
    first_micro_batch += route.micro_batches;
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

std::string Describe(const Plan& plan) {
  std::string text = absl::StrCat(plan.routes.size(), plan.routes.size() == 1 ? " route" : " routes", ", micro-batch ",
                                  plan.micro_batch_sequences, ", ", NameOf(plan.schedule), ": ");
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
    route_separator = " | ";
  }
  return text;
}

}  // namespace medley
