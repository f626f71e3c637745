#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "proto/medley/v1/coordinator.pb.h"
#include "runtime/base/duration_histogram.h"
#include "runtime/web/open_metrics.h"

// What the coordinator knows, as figures. README.md beside this file has their labels.
namespace medley {

struct JobsToCount {
  std::map<v1::JobState, int64_t> counts;  // of all jobs there are
  // Those with figures of their own, as they are on disk: what a coordinator that comes back counts on from.
  std::vector<v1::Job> shown;
  std::vector<v1::DeviceProfile> profiles;  // of the devices' kinds
  int64_t waiting = 0;                      // for devices
  double oldest_wait_seconds = 0;
};
void AddJobFigures(const JobsToCount& jobs, double now_seconds, OpenMetrics& metrics);

// Each part of a job's time since it was submitted, by what it went to, and with the name "" what is not known yet: they add up to it. All
// but that never fall.
std::vector<std::pair<std::string, double>> TimeOf(const v1::Job& job, double now_seconds);

void AddNodeFigures(const std::vector<v1::Node>& nodes, OpenMetrics& metrics);
void AddLeaseFigures(int held, int expiring, uint64_t lost, OpenMetrics& metrics);

// Of the store's calls, by name.
void AddStoreFigures(const std::map<std::string, DurationHistogram>& durations, uint64_t failures,
                     OpenMetrics& metrics);
// Of a store that is backed up: when last, if it ever was, and how often it is to be.
void AddBackupFigures(std::optional<absl::Time> newest, absl::Duration every, OpenMetrics& metrics);

// Of the newest traced step of each job that runs: what devices did with it, and what went between them since the attempt began.
void AddTraceFigures(const std::vector<v1::Trace>& traces, OpenMetrics& metrics);

}  // namespace medley
