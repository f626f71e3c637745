#include "coordinator/orchestrator/profile_learning.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/base/unix_time.h"
#include "runtime/ir/program/program.h"
#include "runtime/wire/cluster_codec.h"

namespace medley {
namespace {

constexpr size_t kFewestSteps = 4;
constexpr double kStepsOfBelief = 4;
// Older ones are of another time.
constexpr size_t kMostSteps = 15;
constexpr double kWorthCorrecting = 0.02, kWorthTellingAgain = 0.01;
// Beyond this something else was measured: a process that was stopped, a debugger.
constexpr double kMostFactor = 5;

bool IsPass(const v1::TraceInstruction& instruction) {
  static const std::set<std::string> names = {
      NameOf(InstructionKind::kForward), NameOf(InstructionKind::kBackward),
      NameOf(InstructionKind::kInputGradient), NameOf(InstructionKind::kWeightGradient)};
  return names.contains(instruction.kind());
}

}  // namespace

ProfileLearner::ProfileLearner(std::string job_id, const PlannedJob& planned, std::string shape)
    : job_id_(std::move(job_id)), shape_(std::move(shape)) {
  // What conversions, or sums between the ranks of a unit, take would be taken for a slow device.
  if (!planned.passes_as_profiled) return;
  std::map<std::string, size_t> subject_of_kind;
  for (const ProfileUse& use : planned.report.profiles) {
    subject_of_kind[use.device_kind] = subjects_.size();
    Subject& kind = subjects_.emplace_back();
    kind.lesson.device_kind = use.device_kind;
    kind.lesson.measured_at_seconds = use.measured_at_seconds;
    const auto correction = planned.corrections.find(use.device_kind);
    if (correction != planned.corrections.end()) kind.planned_factor = correction->second;
  }
  for (const Explanation::Device& used : planned.report.explanation.devices) {
    if (!used.used || planned.report.emulated.contains(used.name)) continue;
    const auto beside = planned.slowdowns.find(used.name);
    if (beside != planned.slowdowns.end()) {
      const PlannedSlowdown& slowdown = beside->second;
      subject_of_device_[used.name] = subjects_.size();
      Subject& device = subjects_.emplace_back();
      device.lesson.host = slowdown.host;
      device.lesson.device = used.name;
      device.lesson.measured_at_seconds = slowdown.measured_at_seconds;
      device.planned_factor = slowdown.planned_factor / slowdown.measured_factor;
      device.least_factor = 1 / slowdown.measured_factor;  // nobody is faster for company
    } else if (const auto kind = subject_of_kind.find(used.kind); kind != subject_of_kind.end()) {
      subject_of_device_[used.name] = kind->second;
    }
  }
}

std::vector<ProfileLearner::Lesson> ProfileLearner::Add(const v1::Trace& trace, double now_seconds) {
  struct Sum {
    double predicted = 0, measured = 0;
  };
  std::map<size_t, Sum> sums;
  for (const v1::TraceLane& lane : trace.lanes()) {
    const auto subject = subject_of_device_.find(lane.device());
    if (subject == subject_of_device_.end()) continue;
    Sum& sum = sums[subject->second];
    for (const v1::TraceInstruction& instruction : lane.instructions()) {
      if (!IsPass(instruction)) continue;
      sum.predicted += instruction.predicted_end_seconds() - instruction.predicted_start_seconds();
      sum.measured += instruction.measured_end_seconds() - instruction.measured_start_seconds();
    }
  }
  std::vector<Lesson> lessons;
  for (const auto& [index, sum] : sums) {
    if (sum.predicted <= 0 || sum.measured <= 0) continue;
    Subject& subject = subjects_[index];
    subject.ratios.push_back(sum.measured / sum.predicted);
    if (subject.ratios.size() > kMostSteps) subject.ratios.erase(subject.ratios.begin());
    std::optional<Lesson> lesson = LessonOf(subject);
    if (!lesson) continue;
    lesson->correction.job_id = job_id_;
    lesson->correction.at_seconds = now_seconds;
    lessons.push_back(*std::move(lesson));
  }
  return lessons;
}

std::optional<ProfileLearner::Lesson> ProfileLearner::LessonOf(Subject& subject) const {
  if (subject.ratios.size() < kFewestSteps) return std::nullopt;
  std::vector<double> sorted = subject.ratios;
  std::sort(sorted.begin(), sorted.end());
  const double median = sorted[sorted.size() / 2];
  std::vector<double> distances;
  for (const double ratio : sorted) distances.push_back(std::abs(ratio - median));
  std::sort(distances.begin(), distances.end());
  const double spread = distances[distances.size() * 2 / 3] / median;
  // What was believed before counts like some steps, so that a minute in which the machine was slow is not
  // taken for the truth.
  const double steps = static_cast<double>(subject.ratios.size());
  const double shown = std::pow(median, steps / (steps + kStepsOfBelief));
  const double factor = std::max(subject.planned_factor * shown, subject.least_factor);
  if (factor > kMostFactor || factor < 1 / kMostFactor) return std::nullopt;
  const bool told = subject.told_factor > 0;
  const double news = std::abs(factor / (told ? subject.told_factor : subject.planned_factor) - 1);
  if (news <= std::max(told ? kWorthTellingAgain : kWorthCorrecting, spread)) return std::nullopt;
  subject.told_factor = factor;
  Lesson lesson = subject.lesson;
  lesson.correction.factor = factor;
  lesson.correction.steps = static_cast<int>(subject.ratios.size());
  return lesson;
}

std::vector<std::string> NoteMeasuredStep(Store& store, ProfileLearner& learner, const v1::Trace& trace) {
  std::vector<std::string> said;
  const double now_seconds = UnixSecondsNow();
  for (const ProfileLearner::Lesson& lesson : learner.Add(trace, now_seconds)) {
    const std::string about = lesson.device.empty()
                                  ? lesson.device_kind
                                  : absl::StrCat(lesson.device, " beside the others of its host");
    const v1::ProfileCorrection correction = EncodeCorrection(lesson.correction);
    const absl::StatusOr<bool> put =
        lesson.device.empty()
            ? store.PutCorrection(lesson.device_kind, learner.shape(), lesson.measured_at_seconds, correction)
            : store.PutSlowdownCorrection(lesson.host, learner.shape(), lesson.device,
                                          lesson.measured_at_seconds, correction);
    if (!put.ok()) {
      said.push_back(absl::StrCat("what was learnt about ", about, " is not kept: ", put.status().message()));
    } else if (*put) {
      said.push_back(absl::StrFormat(
          "passes of %s take %.2f times as long as was measured, over %d traced steps: plans to come are "
          "made with that",
          about, lesson.correction.factor, lesson.correction.steps));
    }
  }
  return said;
}

}  // namespace medley
