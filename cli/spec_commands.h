#pragma once
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "cli/connection.h"
#include "cli/what_if.h"
#include "runtime/wire/yaml_message.h"

// `medley submit`, `medley plan` and `medley what-if`. Each prints its answer on standard output.
// Errors: InvalidArgument, the file or what the user gave beside it is wrong, with its line where that is
// known; Cancelled, Ctrl-C; otherwise what went wrong, in one line.
namespace medley {

// A job spec and what is changed of it.
struct SpecSource {
  std::string file;                     // "-": standard input
  std::vector<std::string> sets;        // "PATH=VALUE", in their order
  std::vector<YamlOverride> overrides;  // of other options; after those
};

enum class AfterSubmit { kReturn, kWatch };
struct SubmitCommand {
  SpecSource spec;
  std::string request_id;  // empty: none
  AfterSubmit then = AfterSubmit::kReturn;
};
// Aborted: the watched job failed or was cancelled.
absl::Status RunSubmit(const Connection& connection, const SubmitCommand& command);

struct PlanCommand {
  SpecSource spec;
  std::string cluster_file;       // empty: ask the coordinator
  std::string kinds_directory;    // of device kinds that were not measured; empty: none
  double time_limit_seconds = 0;  // 0: none
  bool with_pareto = false;       // also plans that are slower and cheaper
  PlanDetail detail = PlanDetail::kSummary;
  std::string page_file;  // to write the page of plan_page.h to; empty: none, "-": standard output, alone
};
absl::Status RunPlan(const Connection& connection, const PlanCommand& command);

struct WhatIfCommand {
  SpecSource spec;
  std::string today_file;    // today's cluster; empty: the coordinator's
  std::string cluster_file;  // another cluster in the place of today's; empty: none
  WhatIfChanges changes;     // but for that one
  std::string
      kinds_directory;  // as of PlanCommand; empty: where data sheets are installed, for what is added alone
  double time_limit_seconds = 0;  // of each of the two plans; 0: none
};
// Both plans are made here; the coordinator is asked for its cluster alone, and measures nothing.
absl::Status RunWhatIf(const Connection& connection, WhatIfCommand command);

// The plan of a job, and why others would be slower. `page_file` as of PlanCommand.
absl::Status RunExplain(const Connection& connection, const std::string& job_id,
                        const std::string& page_file);

}  // namespace medley
