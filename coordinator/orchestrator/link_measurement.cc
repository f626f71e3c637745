#include "coordinator/orchestrator/link_measurement.h"

#include <algorithm>
#include <optional>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/orchestrator/link_samples.h"
#include "runtime/base/mutex.h"
#include "runtime/base/status_macros.h"
#include "runtime/wire/link_codec.h"
#include "runtime/wire/message_protection_codec.h"
#include "runtime/wire/validate.h"

namespace medley {
namespace {

// A link that is so much faster alone than beside others was disturbed by them; less is what repeated probes
// differ by.
constexpr double kDisturbance = 1.15;

bool IsBetweenMachines(const std::vector<ClusterDeviceLocation>& devices, const DevicePair& pair) {
  return MachineOf(devices[pair.first]) != MachineOf(devices[pair.second]);
}

std::string NameOf(const std::vector<ClusterDeviceLocation>& devices, const DevicePair& pair) {
  return absl::StrCat(FullName(devices[pair.first]), " - ", FullName(devices[pair.second]));
}

// A worker's figures are not believed unseen: plans are made of them.
absl::Status CheckMeasured(const v1::LinkProfile& link) {
  RETURN_IF_ERROR(ValidateMessage(link));
  return DecodeLink(link).status();
}

}  // namespace

AttemptTask TaskOn(const ClusterDeviceLocation& device, const std::string& task_id, uint64_t attempt) {
  AttemptTask task{.device = FullName(device), .agent_address = device.agent_address};
  task.request.set_task_id(task_id);
  task.request.set_attempt(attempt);
  task.request.set_device(device.device.description.name);
  return task;
}

AttemptEnd LinkMeasurement::Measure(const std::vector<ClusterDeviceLocation>& devices, What what) {
  LinkTable known({}, protection_);
  if (what == What::kMissing) {
    const absl::StatusOr<std::vector<v1::LinkProfile>> stored = store_.ListLinks();
    if (!stored.ok()) return EndOfStore(stored.status());
    known = LinkTable(*stored, protection_);
  }
  while (true) {
    const std::vector<DevicePair> pairs = PairsToMeasure(devices, known);
    if (pairs.empty()) return {};
    for (const std::vector<DevicePair>& round : ProbeRounds(devices, pairs)) {
      AttemptEnd end = MeasureRound(devices, round, known);
      if (!end.status.ok()) return end;
    }
  }
}

AttemptEnd LinkMeasurement::MeasureRound(const std::vector<ClusterDeviceLocation>& devices,
                                         const std::vector<DevicePair>& round, LinkTable& known) {
  std::vector<std::string> names;
  for (const DevicePair& pair : round) names.push_back(NameOf(devices, pair));
  const std::string with = protection_ == MessageProtection::kNone
                               ? ""
                               : absl::StrCat(" with message_protection ", NameOf(protection_));
  progress_(
      absl::StrCat("measuring the link", round.size() > 1 ? "s " : " ", absl::StrJoin(names, ", "), with));
  std::vector<Probed> probed = ProbeTogether(devices, round);
  AttemptEnd end = ProbeAgainIfDisturbed(devices, round, probed);
  for (const Probed& one : probed) {
    if (!one.end.status.ok()) {
      if (end.status.ok()) end = one.end;
      continue;
    }
    if (const absl::Status stored = store_.PutLink(one.link); !stored.ok()) return EndOfStore(stored);
    known.Add(one.link);
  }
  return end;
}

std::vector<LinkMeasurement::Probed> LinkMeasurement::ProbeTogether(
    const std::vector<ClusterDeviceLocation>& devices, const std::vector<DevicePair>& round) {
  std::vector<Probed> probed(round.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < round.size(); ++i) {
    threads.emplace_back([&, i] { probed[i] = Probe(devices[round[i].first], devices[round[i].second]); });
  }
  for (std::thread& thread : threads) thread.join();
  return probed;
}

AttemptEnd LinkMeasurement::ProbeAgainIfDisturbed(const std::vector<ClusterDeviceLocation>& devices,
                                                  const std::vector<DevicePair>& round,
                                                  std::vector<Probed>& probed) {
  std::vector<size_t> network;  // those that may share a part of it
  for (size_t i = 0; i < round.size(); ++i) {
    if (!probed[i].end.status.ok()) return {};  // the round has failed already
    if (IsBetweenMachines(devices, round[i])) network.push_back(i);
  }
  if (network.size() < 2) return {};
  const auto speed = [&](size_t i) { return probed[i].link.bytes_per_second(); };
  std::sort(network.begin(), network.end(), [&](size_t i, size_t j) { return speed(i) < speed(j); });
  for (const size_t i : network) {
    Probed alone = Probe(devices[round[i].first], devices[round[i].second]);
    if (!alone.end.status.ok()) return alone.end;
    const bool was_disturbed = alone.link.bytes_per_second() > kDisturbance * speed(i);
    probed[i] = std::move(alone);
    if (i != network.front()) continue;
    if (!was_disturbed) return {};
    progress_("the links measured together share a part of the network: each is measured alone");
  }
  return {};
}

LinkMeasurement::Probed LinkMeasurement::Probe(const ClusterDeviceLocation& a,
                                               const ClusterDeviceLocation& b) {
  const absl::StatusOr<uint64_t> attempt = store_.NextAttempt();
  if (!attempt.ok()) return {.end = EndOfStore(attempt.status())};
  std::vector<AttemptTask> tasks;
  for (const ClusterDeviceLocation* device : {&a, &b}) {
    AttemptTask& task =
        tasks.emplace_back(TaskOn(*device, absl::StrCat("probe/", *attempt, "/", tasks.size()), *attempt));
    task.request.mutable_probe()->set_rank(static_cast<uint32_t>(tasks.size()) - 1);
    if (protection_ != MessageProtection::kNone)
      task.request.mutable_probe()->set_message_protection(EncodeMessageProtection(protection_));
  }
  Mutex mutex;
  std::optional<v1::LinkProfile> link;
  AttemptEnd end = run_(std::move(tasks), {.event = [&](int task, const v1::WorkerEvent& event) {
                          MutexLock lock(mutex);
                          if (event.has_link() && task == 0) link = event.link();
                        }});
  if (!end.status.ok()) return {.end = std::move(end)};
  const std::string name = absl::StrCat(FullName(a), " - ", FullName(b));
  if (!link)
    return {.end = {.status =
                        absl::InternalError(absl::StrCat(name, ": the probe ended without a measurement"))}};
  link->set_a(FullName(a));
  link->set_b(FullName(b));
  link->set_kind(LinkKind(a, b));
  link->set_link_class(LinkClass(a, b));
  if (!HoldsUnder(protection_, *link)) {
    return {.end = {.status = absl::InternalError(absl::StrCat(
                        name, ": it was to be measured with message_protection ", NameOf(protection_),
                        ", and was with ", NameOf(DecodeMessageProtection(link->message_protection()))))}};
  }
  if (const absl::Status sound = CheckMeasured(*link); !sound.ok()) {
    return {.end = {.status = absl::InternalError(
                        absl::StrCat(name, ": the probe's measurement: ", sound.message()))}};
  }
  return {.link = *std::move(link)};
}

}  // namespace medley
