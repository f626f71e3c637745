#pragma once
#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "proto/medley/v1/job.pb.h"

// What the parts of the orchestrator say of jobs and devices.
namespace medley {

// Why a job has ended that its user cancelled.
inline constexpr char kCancelledByUser[] = "cancelled by the user";

// Why runs are left, and calls ended, with the coordinator.
inline constexpr char kStopping[] = "the coordinator is stopping";

// Why it leaves a node.
inline std::string BecauseDrained(const std::string& node) {
  return absl::StrCat("node ", node, " is drained");
}

inline bool Has(const std::vector<std::string>& all, const std::string& one) {
  return std::find(all.begin(), all.end(), one) != all.end();
}

// Of devices that are listed for people (SomeNames).
inline constexpr size_t kMostNamed = 16;

// It is there, and waits for devices.
inline bool Waits(const absl::StatusOr<v1::Job>& job) {
  return job.ok() && (job->state() == v1::JOB_STATE_QUEUED || job->state() == v1::JOB_STATE_RECOVERING);
}

}  // namespace medley
