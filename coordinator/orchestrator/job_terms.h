#pragma once
#include <algorithm>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/medley/v1/job.pb.h"

// What the parts of the orchestrator say of jobs and devices.
namespace medley {

// Why a job has ended that its user cancelled.
inline constexpr char kCancelledByUser[] = "cancelled by the user";

// Why it leaves a node.
inline std::string BecauseDrained(const std::string& node) {
  return absl::StrCat("node ", node, " is drained");
}

inline bool Has(const std::vector<std::string>& all, const std::string& one) {
  return std::find(all.begin(), all.end(), one) != all.end();
}

// Names for people, with commas: of many the first, and how many more.
inline std::string FirstOf(const std::vector<std::string>& names) {
  constexpr size_t kShown = 16;
  if (names.size() <= kShown) return absl::StrJoin(names, ", ");
  return absl::StrCat(absl::StrJoin(names.begin(), names.begin() + kShown, ", "), " and ",
                      names.size() - kShown, " more");
}

// It is there, and waits for devices.
inline bool Waits(const absl::StatusOr<v1::Job>& job) {
  return job.ok() && (job->state() == v1::JOB_STATE_QUEUED || job->state() == v1::JOB_STATE_RECOVERING);
}

}  // namespace medley
