#include "coordinator/orchestrator/profile_learning.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "runtime/program/program.h"

namespace medley {
namespace {

constexpr size_t kFewestSteps = 4;
// Older ones are of another time.
constexpr size_t kMostSteps = 15;
constexpr double kWorthCorrecting = 0.02, kWorthTellingAgain = 0.01;
// Beyond this something else was measured: a process that was stopped, a debugger.
constexpr double kMostFactor = 5;

bool IsPass(const v1::TraceInstruction& instruction) {
  return instruction.kind() == NameOf(InstructionKind::kForward) || instruction.kind() == NameOf(InstructionKind::kBackward);
}

}  // namespace

ProfileLearner::ProfileLearner(std::string job_id, const PlannedJob& planned, std::string shape)
    : job_id_(std::move(job_id)), shape_(std::move(shape)) {
  for (const v1::DeviceShare& share : planned.report.devices()) {
    // What is off where devices slow each other down may be the slow-down as well as the profile.
    const bool teaches = share.used() && !share.emulated() && planned.beside_others.count(share.device()) == 0;
    if (teaches) kind_of_device_[share.device()] = share.kind();
  }
  for (const v1::ProfileUse& use : planned.report.profiles()) {
    Kind& kind = kinds_[use.device_kind()];
    kind.profile_measured_at_seconds = use.measured_at_seconds();
    const auto correction = planned.corrections.find(use.device_kind());
    if (correction != planned.corrections.end()) kind.planned_factor = correction->second;
  }
}

std::vector<ProfileLearner::Lesson> ProfileLearner::Add(const v1::Trace& trace, double now_seconds) {
  struct Sum {
    double predicted = 0, measured = 0;
  };
  std::map<std::string, Sum> sums;
  for (const v1::TraceLane& lane : trace.lanes()) {
    const auto kind = kind_of_device_.find(lane.device());
    if (kind == kind_of_device_.end()) continue;
    Sum& sum = sums[kind->second];
    for (const v1::TraceInstruction& instruction : lane.instructions()) {
      if (!IsPass(instruction)) continue;
      sum.predicted += instruction.predicted_end_seconds() - instruction.predicted_start_seconds();
      sum.measured += instruction.measured_end_seconds() - instruction.measured_start_seconds();
    }
  }
  std::vector<Lesson> lessons;
  for (const auto& [name, sum] : sums) {
    const auto found = kinds_.find(name);
    if (found == kinds_.end() || sum.predicted <= 0 || sum.measured <= 0) continue;
    Kind& kind = found->second;
    kind.ratios.push_back(sum.measured / sum.predicted);
    if (kind.ratios.size() > kMostSteps) kind.ratios.erase(kind.ratios.begin());
    if (kind.ratios.size() < kFewestSteps) continue;
    std::vector<double> sorted = kind.ratios;
    std::sort(sorted.begin(), sorted.end());
    const double median = sorted[sorted.size() / 2];
    std::vector<double> distances;
    for (const double ratio : sorted) distances.push_back(std::abs(ratio - median));
    std::sort(distances.begin(), distances.end());
    const double spread = distances[distances.size() * 2 / 3] / median;
    const double factor = kind.planned_factor * median;
    if (factor > kMostFactor || factor < 1 / kMostFactor) continue;
    const bool told = kind.told_factor > 0;
    const double news = std::abs(factor / (told ? kind.told_factor : kind.planned_factor) - 1);
    if (news <= std::max(told ? kWorthTellingAgain : kWorthCorrecting, spread)) continue;
    kind.told_factor = factor;
    Lesson& lesson = lessons.emplace_back(Lesson{name, kind.profile_measured_at_seconds, {}});
    lesson.correction.set_factor(factor);
    lesson.correction.set_steps(static_cast<uint32_t>(kind.ratios.size()));
    lesson.correction.set_job_id(job_id_);
    lesson.correction.set_at_seconds(now_seconds);
  }
  return lessons;
}

std::vector<std::string> NoteMeasuredStep(Store& store, ProfileLearner& learner, const v1::Trace& trace) {
  std::vector<std::string> said;
  const double now_seconds = absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch());
  for (const ProfileLearner::Lesson& lesson : learner.Add(trace, now_seconds)) {
    const absl::StatusOr<v1::DeviceProfile> profile = store.FindProfile(lesson.device_kind, learner.shape(), {});
    if (!profile.ok() || profile->measured_at_seconds() != lesson.profile_measured_at_seconds) continue;
    const absl::Status put = store.PutCorrection(lesson.device_kind, learner.shape(), lesson.correction);
    if (!put.ok()) {
      said.push_back(absl::StrCat("what was learnt about ", lesson.device_kind, " is not kept: ", put.message()));
      continue;
    }
    said.push_back(absl::StrFormat("passes of %s take %.2f times as long as their profile says, over %d traced steps: plans to come "
                                   "are made with that", lesson.device_kind, lesson.correction.factor(), lesson.correction.steps()));
  }
  return said;
}

}  // namespace medley
