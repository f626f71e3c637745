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
// Among so many of a kind the middle one is as the kind is; and what is so far from it, over so many steps, is apart from its kind.
constexpr size_t kFewestOfKind = 3, kFewestStepsApart = 8;
constexpr double kApart = 1.1;
// What it takes is told in such steps, and again when it is another by so much: more than a step, not to be told back and forth.
constexpr double kPaceStep = 0.05, kWorthTellingPace = 0.07;
constexpr double kPaceIsTellableAgainSeconds = 4 * 3600;
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

void Remember(double ratio, std::vector<double>& ratios) {
  ratios.push_back(ratio);
  if (ratios.size() > kMostSteps) ratios.erase(ratios.begin());
}

// What ratios show: the middle one, and how far two thirds of them are from it at most, as a part of it.
struct Middle {
  double ratio = 1, spread = 0;
};
Middle MiddleOf(std::vector<double> ratios) {
  std::sort(ratios.begin(), ratios.end());
  const double median = ratios[ratios.size() / 2];
  std::vector<double> distances;
  for (const double ratio : ratios) distances.push_back(std::abs(ratio - median));
  std::sort(distances.begin(), distances.end());
  return {median, distances[distances.size() * 2 / 3] / median};
}

// What was believed before counts like some steps, so that a minute in which the machine was slow is not
// taken for the truth.
double Believed(double ratio, size_t steps) {
  return std::pow(ratio, static_cast<double>(steps) / (static_cast<double>(steps) + kStepsOfBelief));
}

// What a device's pace multiplies.
bool ArePasses(TimeClass times) { return times == TimeClass::kPasses || times == TimeClass::kRecomputations; }

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
    const auto passes = subjects.find(TimeClass::kPasses);
    if (beside == planned.slowdowns.end() && passes != subjects.end()) {
      Pace& pace = paces_[used.name] = {.lesson = subjects_[passes->second].lesson};
      for (const BlockRange& chunk : unit->second->chunks)
        absl::StrAppend(&pace.blocks, chunk.first.value(), "-", chunk.end.value(), ",");
      if (const auto known = planned.paces.find(used.name); known != planned.paces.end()) {
        pace.planned_factor = pace.told_factor = known->second.factor;
        pace.told_at_seconds = known->second.at_seconds;
      }
    }
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
  const std::set<std::string> apart = AddPaces(trace);
  for (const v1::TraceLane& lane : trace.lanes()) {
    const auto device = subjects_of_device_.find(lane.device());
    if (device == subjects_of_device_.end()) continue;
    for (const v1::TraceInstruction& instruction : lane.instructions()) {
      const std::optional<TimeClass> times = TimesOf(instruction);
      if (!times || (ArePasses(*times) && apart.contains(lane.device()))) continue;
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
    Remember(sum.measured / sum.predicted, subject.ratios);
    std::optional<Lesson> lesson = LessonOf(subject);
    if (!lesson) continue;
    lessons.push_back(*std::move(lesson));
  }
  for (auto& [device, pace] : paces_) {
    if (std::optional<Lesson> lesson = LessonOf(device, now_seconds, pace))
      lessons.push_back(*std::move(lesson));
  }
  for (Lesson& lesson : lessons) {
    lesson.correction.job_id = job_id_;
    lesson.correction.at_seconds = now_seconds;
  }
  return lessons;
}

std::set<std::string> ProfileLearner::AddPaces(const v1::Trace& trace) {
  // By kind and blocks, and device: over what was predicted.
  std::map<std::pair<std::string, std::string>, std::map<std::string, double>> of_kinds;
  std::set<std::string> apart;
  for (const auto& [device, pace] : paces_) {
    if (pace.planned_factor != 1) apart.insert(device);
  }
  for (const v1::TraceLane& lane : trace.lanes()) {
    const auto pace = paces_.find(lane.device());
    if (pace == paces_.end()) continue;
    double predicted = 0, measured = 0;
    for (const v1::TraceInstruction& instruction : lane.instructions()) {
      if (TimesOf(instruction) != TimeClass::kPasses) continue;
      predicted += instruction.predicted_end_seconds() - instruction.predicted_start_seconds();
      measured += instruction.measured_end_seconds() - instruction.measured_start_seconds();
    }
    if (predicted > 0 && measured > 0)
      of_kinds[{pace->second.lesson.device_kind, pace->second.blocks}][lane.device()] = measured / predicted;
  }
  for (const auto& [kind, ratios] : of_kinds) {
    if (ratios.size() < kFewestOfKind) continue;
    std::vector<double> sorted;
    for (const auto& [device, ratio] : ratios) sorted.push_back(ratio);
    std::sort(sorted.begin(), sorted.end());
    const double middle = sorted[(sorted.size() - 1) / 2];
    for (const auto& [device, ratio] : ratios) {
      Remember(ratio / middle, paces_.at(device).ratios);
      if (ratio > kApart * middle || ratio < middle / kApart) apart.insert(device);
    }
  }
  return apart;
}

std::optional<ProfileLearner::Lesson> ProfileLearner::LessonOf(const std::string& device, double now_seconds,
                                                               Pace& pace) const {
  if (pace.ratios.size() < kFewestStepsApart) return std::nullopt;
  const auto [ratio, spread] = MiddleOf(pace.ratios);
  const double shown = pace.planned_factor * Believed(ratio, pace.ratios.size());
  if (shown > kMostFactor || shown < 1 / kMostFactor) return std::nullopt;
  double factor = pace.told_factor;
  if (std::abs(shown / factor - 1) > std::max(spread, kWorthTellingPace)) {
    factor = std::round(shown / kPaceStep) * kPaceStep;
    if (factor < kApart - kPaceStep / 2 && factor > 1 / kApart) factor = 1;
  }
  const bool is_news = factor != pace.told_factor;
  if (!is_news && (factor == 1 || now_seconds - pace.told_at_seconds < kPaceIsTellableAgainSeconds))
    return std::nullopt;
  pace.told_factor = factor;
  pace.told_at_seconds = now_seconds;
  Lesson lesson = pace.lesson;
  lesson.device = device;
  lesson.is_news = is_news;
  lesson.correction.factor = factor;
  lesson.correction.steps = static_cast<int>(pace.ratios.size());
  return lesson;
}

std::optional<ProfileLearner::Lesson> ProfileLearner::LessonOf(Subject& subject) const {
  if (subject.ratios.size() < kFewestSteps) return std::nullopt;
  const auto [ratio, spread] = MiddleOf(subject.ratios);
  const double shown = Believed(ratio, subject.ratios.size());
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
    const std::string about =
        !lesson.device.empty()
            ? absl::StrCat(lesson.device, " among the others of ", lesson.device_kind)
            : absl::StrCat(lesson.device_kind, lesson.host.empty() ? "" : " beside the others of its host");
    v1::ProfileCorrection correction = EncodeCorrection(lesson.times, lesson.correction);
    correction.set_device(lesson.device);
    const absl::StatusOr<bool> put =
        lesson.host.empty()
            ? store.PutCorrection(lesson.device_kind, lesson.shape, lesson.measured_at_seconds, correction)
            : store.PutSlowdownCorrection(lesson.host, lesson.shape, lesson.device_kind,
                                          lesson.measured_at_seconds, correction);
    if (!put.ok()) {
      said.push_back(absl::StrCat("what was learnt about ", about, " is not kept: ", put.status().message()));
    } else if (!lesson.is_news) {
      continue;
    } else if (*put && !lesson.device.empty()) {
      said.push_back(absl::StrFormat(
          "%s takes %.2f times as long as the others of %s, over %d traced steps: plans to "
          "come are made with that",
          lesson.device, lesson.correction.factor, lesson.device_kind, lesson.correction.steps));
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
