#pragma once
#include <string>

#include "coordinator/planner/search_tables.h"

namespace medley {

// Why no plan fits, for people: how much memory the best attempt lacks, and on which device. The attempts are
// pipelines of `min_stages` to `max_stages` devices with the most memory, with the smallest micro-batch.
std::string DescribeShortage(SearchTables& tables, int min_stages, int max_stages);

}  // namespace medley
