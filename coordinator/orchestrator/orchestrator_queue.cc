// Which waiting job starts when, on which devices, and what is said of those that wait.
#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "coordinator/orchestrator/job_terms.h"
#include "coordinator/orchestrator/orchestrator.h"
#include "runtime/base/some_names.h"
#include "runtime/base/status_macros.h"
#include "runtime/wire/cluster_codec.h"

namespace medley {
namespace {

// Looking at what waits takes a part of a thread at most, however many devices there are, and comes soon all the same.
constexpr int kOtherWork = 20;
constexpr absl::Duration kLongestUnseen = absl::Seconds(1);

// Devices by how long they take for a layer of the shape, the fastest first, without those that were not
// measured.
std::vector<std::string> OrderBySpeed(const std::string& shape, const std::vector<NodeSnapshot>& nodes,
                                      const std::vector<v1::DeviceProfile>& profiles) {
  std::map<std::string, double> seconds_by_kind;  // a sequence
  for (const v1::DeviceProfile& stored : profiles) {
    if (stored.shape() != shape) continue;
    const DeviceProfile profile = DecodeProfile(stored);
    for (const ProfiledTimes& times : profile.times) {
      const double seconds = times.blocks.layer.Seconds() / times.micro_batch_sequences;
      const auto [known, is_new] = seconds_by_kind.emplace(profile.device_kind, seconds);
      if (!is_new) known->second = std::min(known->second, seconds);
    }
  }
  std::vector<std::pair<double, std::string>> order;
  for (const NodeSnapshot& node : nodes) {
    for (const ClusterDevice& device : node.description.devices) {
      const auto seconds = seconds_by_kind.find(device.kind);
      if (seconds == seconds_by_kind.end()) continue;
      order.emplace_back(seconds->second, FullName(node.description.name, device));
    }
  }
  std::sort(order.begin(), order.end());
  std::vector<std::string> devices;
  for (auto& [seconds, device] : order) devices.push_back(std::move(device));
  return devices;
}

}  // namespace

// A pinned plan needs exactly its devices. Devices that a job merely may use are taken as they are there, so
// that it goes on with what is left of them.
std::vector<std::string> Orchestrator::WantedDevices(const v1::JobSpec& spec) {
  std::vector<std::string> wanted;
  if (spec.has_plan()) {
    for (const v1::Unit& unit : spec.plan().units())
      wanted.insert(wanted.end(), unit.devices().begin(), unit.devices().end());
    return wanted;
  }
  for (const std::string& device : spec.constraints().devices()) {
    if (cluster_.Find(device).ok() && IsUsable(device)) wanted.push_back(device);
  }
  if (wanted.empty()) wanted.assign(spec.constraints().devices().begin(), spec.constraints().devices().end());
  return wanted;
}

absl::StatusOr<absl::Span<const std::string>> Orchestrator::FastestFirst(const std::string& shape,
                                                                         ClusterRound& round) {
  if (!round.profiles) {
    ASSIGN_OR_RETURN(round.profiles, store_.ListProfiles());
  }
  const auto [fastest, is_new] = round.fastest.try_emplace(shape);
  if (is_new) fastest->second = OrderBySpeed(shape, round.nodes, *round.profiles);
  return fastest->second;
}

absl::StatusOr<WaitingJob> Orchestrator::Describe(const v1::Job& job, ClusterRound& round) {
  const v1::JobSpec& spec = job.spec();
  WaitingJob waiting{.id = job.id()};
  if (spec.has_plan() || (spec.scheduling().least_devices() == 0 && spec.scheduling().most_devices() == 0)) {
    waiting.devices = WantedDevices(spec);
  } else {
    const auto& named = spec.constraints().devices();
    waiting.devices.assign(named.begin(), named.end());
    waiting.least = std::max<uint32_t>(spec.scheduling().least_devices(), 1);
    waiting.most = spec.scheduling().most_devices();
  }
  const auto tried = tried_in_vain_.find(job.id());
  if (tried != tried_in_vain_.end()) waiting.tried_in_vain = tried->second.devices;
  if (!spec.allow_emulated()) waiting.never.assign(round.emulated.begin(), round.emulated.end());
  if (AsksForProtection(spec))
    waiting.never.insert(waiting.never.end(), round.unprotecting.begin(), round.unprotecting.end());
  waiting.priority = spec.scheduling().priority();
  if (waiting.most > 0) {
    ASSIGN_OR_RETURN(waiting.preferred, FastestFirst(job.shape(), round));
  }
  return waiting;
}

void Orchestrator::StartWaitingJobs() {
  const absl::Time began = Time();
  if (waiting_.empty() || began < next_look_) return;
  StartWhatCanStart();
  next_look_ = Time() + std::min(kLongestUnseen, kOtherWork * (Time() - began));
}

void Orchestrator::StartWhatCanStart() {
  ClusterRound round = LookAround(cluster_.Nodes(Time()));
  const bool settled = arrivals_.Settled(Time());
  std::vector<WaitingJob> jobs;
  const std::vector<std::string> ids = waiting_;
  for (const std::string& id : ids) {
    std::string wait;
    bool in_vain = false;
    (void)journal_.Look(id, [&](const v1::Job& job) ABSL_NO_THREAD_SAFETY_ANALYSIS {
      const auto pause = not_before_.find(id);
      const auto tried = tried_in_vain_.find(id);
      if (job.held()) {
        wait = absl::StrCat("held; `medley release ", id, "` lets it go");
      } else if (pause != not_before_.end() && Time() < pause->second) {
        wait = absl::StrCat("tried again in ",
                            absl::FormatDuration(absl::Ceil(pause->second - Time(), absl::Seconds(1))));
      } else if (!settled && !job.spec().has_plan()) {
        wait = "waits for nodes that may still register";
      } else if (tried != tried_in_vain_.end() && settled &&
                 !MoreMayCome(job, tried->second.devices, round)) {
        in_vain = true;
      } else if (absl::StatusOr<WaitingJob> waiting = Describe(job, round); waiting.ok()) {
        jobs.push_back(*std::move(waiting));
      }
    });
    if (!wait.empty()) journal_.SetWait(id, wait);
    if (!in_vain) continue;
    (void)journal_.Apply(id, JobEvent::kRefused, tried_in_vain_.at(id).cause);
    tried_in_vain_.erase(id);
    not_before_.erase(id);
    std::erase(waiting_, id);
  }
  std::vector<std::string> free = UsableDevices();
  while (const std::optional<Grant> grant = NextToStart(jobs, free)) {
    // A node went this very moment: again with the next tick.
    if (!StartJob(grant->job, grant->devices)) break;
    std::erase_if(jobs, [&](const WaitingJob& job) { return job.id == grant->job; });
    std::erase(waiting_, grant->job);
    free = UsableDevices();
  }
  const std::set<std::string> left(free.begin(), free.end());
  // As NextToStart has them: what the first one wants is kept from the others.
  std::stable_sort(jobs.begin(), jobs.end(),
                   [](const WaitingJob& a, const WaitingJob& b) { return a.priority > b.priority; });
  for (const WaitingJob& job : jobs) {
    const bool is_first = &job == &jobs.front();
    journal_.SetWait(job.id, WhatItWaitsFor(job, is_first ? "" : jobs.front().id, left, round));
  }
}

int Orchestrator::HighestWaitingPriority() {
  int highest = std::numeric_limits<int>::min();
  for (const std::string& id : waiting_) {
    (void)journal_.Look(id, [&](const v1::Job& job) {
      if (!job.held()) highest = std::max(highest, job.spec().scheduling().priority());
    });
  }
  return highest;
}

bool Orchestrator::SomeJobCouldStart() {
  return std::any_of(waiting_.begin(), waiting_.end(), [&](const std::string& id) {
    bool could = false;
    (void)journal_.Look(id, [&](const v1::Job& job) ABSL_NO_THREAD_SAFETY_ANALYSIS {
      if (job.held()) return;
      const std::vector<std::string> wanted = WantedDevices(job.spec());
      could = std::all_of(wanted.begin(), wanted.end(), [&](const std::string& device) {
        return cluster_.Find(device).ok() && IsUsable(device);
      });
    });
    return could;
  });
}

std::string Orchestrator::WhatItWaitsFor(const WaitingJob& waiting, const std::string& first,
                                         const std::set<std::string>& free, const ClusterRound& round) {
  if (!waiting.devices.empty()) {
    std::vector<std::string> missing;
    for (const std::string& device : waiting.devices) {
      if (free.contains(device)) continue;
      const bool there = round.live.contains(device) && !standing_.IsSuspect(NodeOf(device));
      const auto holder = round.holders.find(device);
      const bool is_drained = standing_.IsDrained(NodeOf(device));
      missing.push_back(absl::StrCat(device, !there       ? " (not there)"
                                             : is_drained ? " (its node is drained)"
                                             : holder == round.holders.end()
                                                 ? " (in use)"
                                                 : absl::StrCat(" (in use by ", holder->second, ")")));
    }
    if (waiting.least == 0 && !missing.empty())
      return absl::StrCat("waits for ", SomeNames(missing, kMostNamed));
    if (waiting.devices.size() - missing.size() < waiting.least) {
      return absl::StrCat("waits for ", waiting.least, " of constraints.devices; not free are ",
                          SomeNames(missing, kMostNamed));
    }
  } else {
    const std::set<std::string> never(waiting.never.begin(), waiting.never.end());
    const auto usable = static_cast<size_t>(std::count_if(
        free.begin(), free.end(), [&](const std::string& device) { return !never.contains(device); }));
    if (round.live.empty()) return "waits for a device: no agent is registered";
    const bool only_unprotecting = std::all_of(
        free.begin(), free.end(), [&](const auto& device) { return round.unprotecting.contains(device); });
    if (usable == 0 && !free.empty() && only_unprotecting) {
      return "waits for a node whose agent knows of message_protection, which the job or the coordinator "
             "asks for: those "
             "with free devices are of older versions";
    }
    if (usable == 0 && !free.empty()) {
      return "waits for a device that is not emulated: the job does not have allow_emulated: true";
    }
    if (usable == 0) {
      if (round.users.empty() && !standing_.drained().empty())
        return absl::StrCat("waits for a device: drained are ", SomeNames(standing_.drained()));
      return absl::StrCat("waits for a device: all are in use by ", SomeNames(round.users));
    }
    if (usable < waiting.least) {
      return absl::StrCat("waits for ", waiting.least, " devices (scheduling.least_devices): ", usable,
                          usable == 1 ? " is free" : " are free");
    }
  }
  if (!waiting.tried_in_vain.empty())
    return absl::StrCat("waits for more devices than ", SomeNames(waiting.tried_in_vain, kMostNamed));
  if (!first.empty()) return absl::StrCat("waits behind ", first);
  return "waits for devices";
}

// Whether there are devices that the job may use beside those that it was given.
bool Orchestrator::MoreMayCome(const v1::Job& job, const std::vector<std::string>& given,
                               const ClusterRound& round) {
  if (job.restarts() > 0) return true;
  std::set<std::string> devices(job.spec().constraints().devices().begin(),
                                job.spec().constraints().devices().end());
  if (devices.empty()) devices = round.live;
  for (const std::string& device : given) devices.erase(device);
  if (!job.spec().allow_emulated()) {
    for (const std::string& device : round.emulated) devices.erase(device);
  }
  if (AsksForProtection(job.spec())) {
    for (const std::string& device : round.unprotecting) devices.erase(device);
  }
  return !devices.empty();
}

}  // namespace medley
