#include "coordinator/orchestrator/profile_learning.h"

#include <algorithm>
#include <cmath>
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
// A copy is predicted by its rate alone. Of a shorter one much is its beginning, which tells nothing of the rate, and the
// rate is that of all models on the kind.
constexpr double kLeastCopySeconds = 1e-3;

// What is learnt from. Of the other kinds a trace does not tell what they take from what they wait for: ends of
// messages, sums and gathers wait for each other. Those that make parameters ahead have no times of their own.
constexpr std::pair<InstructionKind, TimeClass> kTimesOfInstructions[] = {
    {InstructionKind::kForward, TimeClass::kPasses},
    {InstructionKind::kBackward, TimeClass::kPasses},
    {InstructionKind::kInputGradient, TimeClass::kPasses},
    {InstructionKind::kWeightGradient, TimeClass::kPasses},
    {InstructionKind::kRecompute, TimeClass::kRecomputations},
    {InstructionKind::kUpdateParameters, TimeClass::kUpdates},
    {InstructionKind::kNormGradients, TimeClass::kNorms},
    {InstructionKind::kFetch, TimeClass::kFetches},
    {InstructionKind::kStore, TimeClass::kStores}};

std::optional<TimeClass> TimesOf(const v1::TraceInstruction& instruction) {
  static const std::map<std::string, TimeClass> by_name = [] {
    std::map<std::string, TimeClass> names;
    for (const auto& [kind, times] : kTimesOfInstructions) names[NameOf(kind)] = times;
    return names;
  }();
  // What it is of may follow: "fetch parameters of layer 3".
  const std::string& name = instruction.kind();
  auto found = by_name.find(name);
  if (found == by_name.end()) found = by_name.find(name.substr(0, name.find(' ')));
  if (found == by_name.end()) return std::nullopt;
  return found->second;
}

bool AreCopies(TimeClass times) { return times == TimeClass::kFetches || times == TimeClass::kStores; }

// Whether what a unit of one device takes for such times is what its profile is about, and nothing beside.
bool AreAsProfiled(const PlannedJob& planned, const Unit& unit, TimeClass times) {
  switch (times) {
    case TimeClass::kPasses:
    case TimeClass::kRecomputations:
      // What conversions, or sums between the ranks of a unit, take would be taken for a slow device.
      return planned.passes_as_profiled;
    case TimeClass::kUpdates:
    case TimeClass::kNorms:
      // Those of layers in windows share the memory with copies; those that went ahead only settle.
      return !unit.has_windows() && !planned.plan.post_validation;
    case TimeClass::kFetches:
    case TimeClass::kStores:
      // Copies of several share the memory of their host.
      return planned.alone_on_host.contains(unit.devices.front());
  }
  return false;
}

}  // namespace

ProfileLearner::ProfileLearner(std::string job_id, const PlannedJob& planned, const std::string& shape)
    : job_id_(std::move(job_id)) {
  std::map<std::string, SubjectsByTimes> of_kinds;
  for (const TimesUse& use : planned.times_used) {
    SubjectsByTimes& of_kind = of_kinds[use.device_kind];
    of_kind[use.times] = subjects_.size();
    Subject& subject = subjects_.emplace_back();
    subject.lesson.times = use.times;
    subject.lesson.device_kind = use.device_kind;
    subject.lesson.shape = use.shape;
    subject.lesson.measured_at_seconds = use.measured_at_seconds;
    subject.planned_factor = use.factor;
    const auto passes = of_kind.find(TimeClass::kPasses);
    if (use.times == TimeClass::kRecomputations && !use.correction && passes != of_kind.end())
      subject.goes_by = passes->second;
  }
  std::map<std::string, const Unit*> units;  // of one device; times of others are of their shares
  for (const Unit& unit : planned.plan.units) {
    if (unit.devices.size() == 1) units[unit.devices.front()] = &unit;
  }
  std::map<std::pair<std::string, std::string>, SubjectsByTimes> beside_others;  // by measurement and kind
  for (const Explanation::Device& used : planned.report.explanation.devices) {
    const auto unit = units.find(used.name);
    if (unit == units.end() || planned.report.emulated.contains(used.name)) continue;
    SubjectsByTimes subjects = of_kinds[used.kind];
    const auto beside = planned.slowdowns.find(used.name);
    if (beside != planned.slowdowns.end()) {
      const PlannedSlowdown& slowdown = beside->second;
      const auto [entry, is_new] = beside_others.try_emplace({slowdown.host, slowdown.device_kind});
      if (is_new) entry->second = AddSlowdown(slowdown, shape);
      subjects = entry->second;
    }
    std::erase_if(subjects, [&](const auto& of) { return !AreAsProfiled(planned, *unit->second, of.first); });
    subjects_of_device_[used.name] = std::move(subjects);
  }
}

ProfileLearner::SubjectsByTimes ProfileLearner::AddSlowdown(const PlannedSlowdown& slowdown,
                                                            const std::string& shape) {
  SubjectsByTimes subjects;
  for (const auto& [times, factor] :
       {std::pair(TimeClass::kPasses, slowdown.passes), std::pair(TimeClass::kUpdates, slowdown.updates)}) {
    subjects[times] = subjects_.size();
    Subject& subject = subjects_.emplace_back();
    subject.lesson.times = times;
    subject.lesson.host = slowdown.host;
    subject.lesson.device_kind = slowdown.device_kind;
    subject.lesson.shape = shape;
    subject.lesson.measured_at_seconds = slowdown.measured_at_seconds;
    subject.planned_factor = factor.planned / factor.measured;
    subject.least_factor = 1 / factor.measured;  // nobody is faster for company
  }
  subjects[TimeClass::kNorms] = subjects[TimeClass::kUpdates];
  return subjects;
}

std::vector<ProfileLearner::Lesson> ProfileLearner::Add(const v1::Trace& trace, double now_seconds) {
  struct Sum {
    double predicted = 0, measured = 0;
  };
  std::map<size_t, Sum> sums;
  for (const v1::TraceLane& lane : trace.lanes()) {
    const auto device = subjects_of_device_.find(lane.device());
    if (device == subjects_of_device_.end()) continue;
    for (const v1::TraceInstruction& instruction : lane.instructions()) {
      const std::optional<TimeClass> times = TimesOf(instruction);
      if (!times) continue;
      const auto subject = device->second.find(*times);
      if (subject == device->second.end()) continue;
      const double predicted = instruction.predicted_end_seconds() - instruction.predicted_start_seconds();
      if (AreCopies(*times) && predicted < kLeastCopySeconds) continue;
      Sum& sum = sums[subject->second];
      sum.predicted += predicted;
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
  double factor = std::max(subject.planned_factor * shown, subject.least_factor);
  if (factor > kMostFactor || factor < 1 / kMostFactor) return std::nullopt;
  const bool told = subject.told_factor > 0;
  const double news = std::abs(factor / (told ? subject.told_factor : subject.planned_factor) - 1);
  if (news <= std::max(told ? kWorthTellingAgain : kWorthCorrecting, spread)) {
    if (told || !subject.goes_by || subjects_[*subject.goes_by].told_factor == 0) return std::nullopt;
    factor = subject.planned_factor;
  }
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
    const std::string about = lesson.host.empty()
                                  ? lesson.device_kind
                                  : absl::StrCat(lesson.device_kind, " beside the others of its host");
    const v1::ProfileCorrection correction = EncodeCorrection(lesson.times, lesson.correction);
    const absl::StatusOr<bool> put =
        lesson.host.empty()
            ? store.PutCorrection(lesson.device_kind, lesson.shape, lesson.measured_at_seconds, correction)
            : store.PutSlowdownCorrection(lesson.host, lesson.shape, lesson.device_kind,
                                          lesson.measured_at_seconds, correction);
    if (!put.ok()) {
      said.push_back(absl::StrCat("what was learnt about ", about, " is not kept: ", put.status().message()));
    } else if (*put) {
      said.push_back(absl::StrFormat(
          "%s of %s take %.2f times as long as was measured, over %d traced steps: plans to come are "
          "made with that",
          NameOf(lesson.times), about, lesson.correction.factor, lesson.correction.steps));
    }
  }
  return said;
}

}  // namespace medley
