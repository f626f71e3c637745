#include "coordinator/planner/memory_shortage.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/planner/techniques/memory_saving.h"
#include "runtime/base/counted.h"

namespace medley {
namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

// Pipelines with such devices at each stage, all alike.
struct Attempt {
  Schedule schedule = Schedule::kOneForwardOneBackward;
  std::vector<int> classes;
  int routes = 1;
};

// Of what a stage shares with other units, its even part.
int64_t EvenPartBytes(const SearchTables& tables, const Attempt& attempt, size_t stage, BlockRange blocks) {
  if (!tables.saving().shards_optimizer) return 0;
  if (attempt.routes > 1) return kOptimizerBytes * tables.Parameters(blocks) / attempt.routes;
  const bool is_end = (stage == 0) != (stage + 1 == attempt.classes.size());
  return is_end ? kOptimizerBytes * tables.TiedParameters() / 2 : 0;
}

const SearchTables::StageNeeds& NeedsOf(SearchTables& tables, const Attempt& attempt, size_t stage) {
  using Own = SearchTables::OwnOptimizer;
  const std::vector<int>& classes = attempt.classes;
  const size_t stages = classes.size();
  const Dtype own = tables.Cost(classes[stage]).activations;
  const Dtype before = stage > 0 ? NarrowerOf(own, tables.Cost(classes[stage - 1]).activations) : own;
  Dtype narrowest = before;
  if (stage + 1 < stages) narrowest = NarrowerOf(narrowest, tables.Cost(classes[stage + 1]).activations);
  Own optimizer = Own::kAll;
  if (tables.saving().shards_optimizer) {
    const bool is_end = (stage == 0) != (stage + 1 == stages);
    optimizer = attempt.routes > 1 ? Own::kNone : is_end ? Own::kAllButTied : Own::kAll;
  }
  return tables.NeedsOf({.device_class = classes[stage],
                         .size = 0,
                         .schedule = attempt.schedule,
                         .first = stage == 0,
                         .from_end = static_cast<int>(stages - stage),
                         .micro_batches = std::max(1, tables.MicroBatches(0) / attempt.routes),
                         .activations = own,
                         .narrowest = narrowest,
                         .before = before,
                         .optimizer = optimizer});
}

// Dynamic programming from the last stage.
MemoryShortage ShortageOf(SearchTables& tables, const Attempt& attempt) {
  const int blocks = tables.blocks(), stages = static_cast<int>(attempt.classes.size());
  std::vector<MemoryShortage> after(blocks + 1, {.bytes = kNever});
  after[blocks].bytes = std::numeric_limits<int64_t>::min();
  for (int s = stages - 1; s >= 0; --s) {
    const SearchTables::StageNeeds& needs = NeedsOf(tables, attempt, s);
    const std::vector<int64_t>& available = tables.AvailableBytes(attempt.classes[s]);
    std::vector<MemoryShortage> here(blocks + 1, {.bytes = kNever});
    for (BlockId first = 0; first < blocks; ++first) {
      for (BlockId end = first + 1; end <= blocks; ++end) {
        if (after[end].bytes == kNever) continue;
        const int at = tables.At({first, end});
        int64_t needed = needs.bytes[at] + EvenPartBytes(tables, attempt, s, {first, end});
        if (tables.saving().homes_layers) needed = std::min(needed, needs.window_bytes[at]);
        const int64_t own = needed - available[at];
        const MemoryShortage with =
            own > after[end].bytes
                ? MemoryShortage{own, attempt.classes[s], {first, end}, stages, attempt.routes}
                : after[end];
        if (with.bytes < here[first].bytes) here[first] = with;
      }
    }
    after = std::move(here);
  }
  return after[0];
}

}  // namespace

MemoryShortage LeastShortage(SearchTables& tables, int min_stages, int max_stages) {
  std::vector<int> classes;
  for (int c = 0; c < static_cast<int>(tables.classes().size()); ++c) {
    classes.insert(classes.end(), tables.classes()[c].size(), c);
  }
  std::stable_sort(classes.begin(), classes.end(), [&](int a, int b) {
    return tables.Cost(a).room.LeftFor(0, 0) > tables.Cost(b).room.LeftFor(0, 0);
  });
  MemoryShortage least = {.bytes = kNever};
  const int devices = static_cast<int>(classes.size());
  const PlanConstraints& constraints = tables.problem().constraints;
  int most_routes = tables.saving().shards_optimizer ? tables.MicroBatches(0) : 1;
  if (constraints.max_routes > 0) most_routes = std::min(most_routes, constraints.max_routes);
  for (int stages = min_stages; stages <= std::min(max_stages, devices); ++stages) {
    for (int routes = 1; routes <= std::min(most_routes, devices / stages); ++routes) {
      // The devices with the most memory side by side, and of those the one with the least.
      Attempt attempt = {.routes = routes};
      for (int s = 1; s <= stages; ++s) attempt.classes.push_back(classes[s * routes - 1]);
      for (const Schedule schedule : constraints.schedules) {
        attempt.schedule = schedule;
        const MemoryShortage shortage = ShortageOf(tables, attempt);
        if (shortage.bytes < least.bytes) least = shortage;
      }
    }
  }
  return least.device_class < 0 ? MemoryShortage() : least;
}

std::string DescribeShortage(const SearchTables& tables, const MemoryShortage& shortage) {
  if (shortage.device_class < 0 || shortage.bytes <= 0) {
    return absl::StrCat("no plan of this kind: ", Counted(tables.problem().devices.size(), "device"), ", ",
                        tables.blocks(), " blocks and ",
                        Counted(tables.MicroBatches(0), "micro-batch", "micro-batches"),
                        " at most do not make one");
  }
  const DeviceCost& device = tables.Cost(shortage.device_class);
  return absl::StrCat(
      "no plan fits the devices' memory: the best of the attempts, ",
      shortage.routes > 1 ? absl::StrCat(shortage.routes, " pipelines of ") : "a pipeline of ",
      shortage.stages, " with micro-batch ", tables.problem().micro_batch_sizes[0], ", lacks ",
      FormatBytes({shortage.bytes}), " on ", device.name, " (limit ", DescribeLimit(device.room),
      ") for blocks ", shortage.blocks.first.value(), "-", shortage.blocks.end - 1);
}

}  // namespace medley
