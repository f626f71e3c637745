#include "coordinator/planner/memory_shortage.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "absl/strings/str_cat.h"

namespace medley {
namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

struct Shortage {
  int64_t bytes = kNever;  // of the stage that lacks most; least over the splits
  int device_class = -1;
  BlockRange blocks;
  int stages = 0;
};

// Dynamic programming from the last stage.
Shortage LeastShortage(SearchTables& tables, Schedule schedule, const std::vector<int>& classes) {
  const int blocks = tables.blocks(), stages = static_cast<int>(classes.size());
  std::vector<Shortage> after(blocks + 1);
  after[blocks].bytes = std::numeric_limits<int64_t>::min();
  for (int s = stages - 1; s >= 0; --s) {
    const Dtype own = tables.Cost(classes[s]).activations;
    Dtype narrowest = own;
    if (s > 0) narrowest = NarrowerOf(narrowest, tables.Cost(classes[s - 1]).activations);
    if (s + 1 < stages) narrowest = NarrowerOf(narrowest, tables.Cost(classes[s + 1]).activations);
    const std::vector<int64_t>& needed = tables.NeededBytes({.device_class = classes[s],
                                                             .size = 0,
                                                             .schedule = schedule,
                                                             .first = s == 0,
                                                             .from_end = stages - s,
                                                             .micro_batches = tables.MicroBatches(0),
                                                             .activations = own,
                                                             .narrowest = narrowest});
    const std::vector<int64_t>& available = tables.AvailableBytes(classes[s]);
    std::vector<Shortage> here(blocks + 1);
    for (BlockId first = 0; first < blocks; ++first) {
      for (BlockId end = first + 1; end <= blocks; ++end) {
        if (after[end].bytes == kNever) continue;
        const int64_t own = needed[tables.At({first, end})] - available[tables.At({first, end})];
        const Shortage with =
            own > after[end].bytes ? Shortage{own, classes[s], {first, end}, stages} : after[end];
        if (with.bytes < here[first].bytes) here[first] = with;
      }
    }
    after = std::move(here);
  }
  return after[0];
}

}  // namespace

std::string DescribeShortage(SearchTables& tables, int min_stages, int max_stages) {
  std::vector<int> classes;
  for (int c = 0; c < static_cast<int>(tables.classes().size()); ++c) {
    classes.insert(classes.end(), tables.classes()[c].size(), c);
  }
  std::stable_sort(classes.begin(), classes.end(), [&](int a, int b) {
    return tables.Cost(a).room.LeftFor(0) > tables.Cost(b).room.LeftFor(0);
  });
  Shortage least;
  for (int stages = min_stages; stages <= std::min<int>(max_stages, static_cast<int>(classes.size()));
       ++stages) {
    const std::vector<int> list(classes.begin(), classes.begin() + stages);
    for (const Schedule schedule : tables.problem().constraints.schedules) {
      const Shortage shortage = LeastShortage(tables, schedule, list);
      if (shortage.bytes < least.bytes) least = shortage;
    }
  }
  if (least.device_class < 0 || least.bytes <= 0) {
    return absl::StrCat("no plan of this kind: ", tables.problem().devices.size(), " devices, ",
                        tables.blocks(), " blocks and ", tables.MicroBatches(0),
                        " micro-batches at most do not make one");
  }
  const DeviceCost& device = tables.Cost(least.device_class);
  return absl::StrCat("no plan fits the devices' memory: the best of the attempts, a pipeline of ",
                      least.stages, " with micro-batch ", tables.problem().micro_batch_sizes[0], ", lacks ",
                      FormatBytes({least.bytes}), " on ", device.name, " (limit ",
                      FormatBytes(device.room.memory), ") for blocks ", least.blocks.first.value(), "-",
                      least.blocks.end - 1);
}

}  // namespace medley
