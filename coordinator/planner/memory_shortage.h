#pragma once
#include <cstdint>
#include <string>

#include "coordinator/planner/search_tables.h"

namespace medley {

// What the attempt to fit that comes nearest lacks: of pipelines of the devices with the most memory, with
// the smallest micro-batch, the stage that lacks most. Where the optimizer's state may be shared, of several
// pipelines alike, too, that share it evenly.
struct MemoryShortage {
  int64_t bytes = 0;      // lacking; below 0: left
  int device_class = -1;  // -1: there is none
  BlockRange blocks;
  int stages = 0;
  int routes = 1;
};

// Over pipelines of `min_stages` to `max_stages` devices and all splits, with what the tables may save
// counted as saved.
MemoryShortage LeastShortage(SearchTables& tables, int min_stages, int max_stages);

// Why no plan fits, for people: how much memory the best attempt lacks, and on which device.
std::string DescribeShortage(const SearchTables& tables, const MemoryShortage& shortage);

}  // namespace medley
