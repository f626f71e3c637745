#include "coordinator/orchestrator/profile_learning.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <random>
#include <set>

#include "coordinator/store/store_under_test.h"

namespace medley {
namespace {

constexpr const char* kCopiesShape = "another";

// Each device a unit and a host of its own; of their kinds all times were measured.
PlannedJob Planned() {
  PlannedJob planned;
  for (const auto& [device, kind] :
       {std::pair("a/cpu0", "fast"), std::pair("b/cpu0", "slow"), std::pair("c/cpu0", "fast")}) {
    planned.report.explanation.devices.push_back({.name = device, .kind = kind, .used = true});
    planned.plan.units.push_back({.devices = {device}});
    planned.alone_on_host.insert(device);
  }
  for (const char* kind : {"fast", "slow"}) {
    for (const TimeClass times : kTimeClasses) {
      const bool copies = times == TimeClass::kFetches || times == TimeClass::kStores;
      planned.times_used.push_back({kind, times, copies ? kCopiesShape : "tiny", 7, 1});
    }
  }
  return planned;
}

void SetFactor(PlannedJob& planned, const std::string& kind, TimeClass times, double factor) {
  for (TimesUse& use : planned.times_used) {
    if (use.device_kind == kind && use.times == times) use.factor = factor;
  }
}

// Of a trace: names of instructions, the seconds that they are predicted to take, and how many times as long they do.
struct Taken {
  std::string name;
  double predicted_seconds = 0, times = 1;
};

void AddLane(const std::string& device, const std::vector<Taken>& instructions, v1::Trace& trace) {
  v1::TraceLane& lane = *trace.add_lanes();
  lane.set_device(device);
  double at = 0;
  for (const Taken& taken : instructions) {
    v1::TraceInstruction& instruction = *lane.add_instructions();
    instruction.set_kind(taken.name);
    instruction.set_predicted_start_seconds(10);
    instruction.set_predicted_end_seconds(10 + taken.predicted_seconds);
    instruction.set_measured_start_seconds(at);
    at += taken.predicted_seconds * taken.times;
    instruction.set_measured_end_seconds(at);
  }
}

// Each device forward for 1 s and backward for 2 s as predicted, but `times` as long; and a message that takes for ever.
v1::Trace Step(const std::map<std::string, double>& times) {
  v1::Trace trace;
  for (const auto& [device, factor] : times) {
    AddLane(device, {{"forward", 1, factor}, {"backward", 2, factor}, {"send activation", 1, 100}}, trace);
  }
  return trace;
}

// One of each kind of instruction on a device, with passes as predicted.
v1::Trace WholeStep(const std::string& device, const std::map<TimeClass, double>& times) {
  const auto factor = [&](TimeClass of) {
    const auto found = times.find(of);
    return found == times.end() ? 1 : found->second;
  };
  std::vector<Taken> taken;
  for (const char* pass : {"forward", "backward", "input gradient", "weight gradient"})
    taken.push_back({pass, 1, factor(TimeClass::kPasses)});
  taken.push_back({"recompute", 0.5, factor(TimeClass::kRecomputations)});
  taken.push_back({"norm", 0.1, factor(TimeClass::kNorms)});
  taken.push_back({"update", 0.2, factor(TimeClass::kUpdates)});
  taken.push_back({"fetch activations", 0.2, factor(TimeClass::kFetches)});
  taken.push_back({"fetch parameters of layer 3", 0.2, factor(TimeClass::kFetches)});
  taken.push_back({"store activations", 0.2, factor(TimeClass::kStores)});
  for (const char* other : {"receive activation", "send gradient", "reduce gradients", "scatter gradients",
                            "gather parameters", "gather activation", "reduce scalars", "advance parameters",
                            "zero gradients of layer 3", "join gradients"})
    taken.push_back({other, 0.1, 4});
  v1::Trace trace;
  AddLane(device, taken, trace);
  return trace;
}

TEST_CASE("four steps that agree correct a kind's profile, and say so again when it moves") {
  ProfileLearner learner("gpt-1", Planned(), "tiny");
  for (int i = 0; i < 3; ++i) {
    CHECK(learner.Add(Step({{"a/cpu0", 0.93}, {"b/cpu0", 1.01}, {"c/cpu0", 0.95}}), 1).empty());
  }
  const auto lessons = learner.Add(Step({{"a/cpu0", 0.93}, {"b/cpu0", 1.01}, {"c/cpu0", 0.95}}), 3);
  REQUIRE(lessons.size() == 1);  // 1 % is not worth it
  CHECK(lessons[0].device_kind == "fast");
  CHECK(lessons[0].measured_at_seconds == 7);
  CHECK(lessons[0].correction.factor == Approx(std::sqrt(0.94)));  // four steps against the belief of four
  CHECK(lessons[0].correction.steps == 4);
  CHECK(lessons[0].correction.job_id == "gpt-1");
  CHECK(lessons[0].correction.at_seconds == 3);
  CHECK(learner.Add(Step({{"a/cpu0", 0.94}, {"c/cpu0", 0.94}}), 4).empty());
  double moved = 0;
  for (int i = 0; i < 15; ++i) {
    for (const auto& lesson : learner.Add(Step({{"a/cpu0", 0.9}, {"c/cpu0", 0.9}}), 5))
      moved = lesson.correction.factor;
  }
  CHECK(moved == Approx(std::pow(0.9, 15.0 / 19)).epsilon(0.01));
}

TEST_CASE("what the prediction was multiplied by already is counted in") {
  PlannedJob planned = Planned();
  SetFactor(planned, "slow", TimeClass::kPasses, 1.2);
  ProfileLearner learner("gpt-1", planned, "tiny");
  std::vector<ProfileLearner::Lesson> lessons;
  for (int i = 0; i < 4; ++i) lessons = learner.Add(Step({{"b/cpu0", 0.8}}), 1);
  REQUIRE(lessons.size() == 1);
  CHECK(lessons[0].correction.factor == Approx(1.2 * std::sqrt(0.8)));
}

TEST_CASE(
    "a step that is off by more than its like differ is a lesson, and one that is not teaches nothing") {
  ProfileLearner far("gpt-1", Planned(), "tiny"), near("gpt-1", Planned(), "tiny");
  double told = 0;
  for (const double noise : {0.95, 1.05, 1.0, 0.94, 1.06, 1.0}) {
    for (const auto& lesson : far.Add(Step({{"b/cpu0", 1.2 * noise}}), 1)) told = lesson.correction.factor;
    CHECK(near.Add(Step({{"b/cpu0", 1.04 * noise}}), 1).empty());
  }
  CHECK(told > 1.08);
  CHECK(told < 1.2);
}

TEST_CASE("a device that is again as fast as it was planned with is believed too") {
  ProfileLearner learner("gpt-1", Planned(), "tiny");
  double told = 0;
  for (int i = 0; i < 25; ++i) {
    for (const auto& lesson : learner.Add(Step({{"b/cpu0", i < 10 ? 1.1 : 1.0}}), 1))
      told = lesson.correction.factor;
  }
  CHECK(told == Approx(1));
}

TEST_CASE("a device beside others of its host teaches how they slow it down, and nothing about its kind") {
  PlannedJob planned = Planned();
  planned.slowdowns["b/cpu0"] = {
      .device_kind = "slow", .host = "box", .measured_at_seconds = 9, .passes = {1.02, 1.02}};
  ProfileLearner learner("gpt-1", planned, "tiny");
  double kind = 0, beside = 0;
  for (int i = 0; i < 9; ++i) {
    for (const auto& lesson : learner.Add(Step({{"a/cpu0", 0.9}, {"b/cpu0", 1.1}, {"c/cpu0", 0.9}}), 1)) {
      if (lesson.host.empty()) {
        CHECK(lesson.device_kind == "fast");
        kind = lesson.correction.factor;
      } else {
        CHECK(lesson.device_kind == "slow");
        CHECK(lesson.host == "box");
        CHECK(lesson.measured_at_seconds == 9);
        beside = lesson.correction.factor;
      }
    }
  }
  CHECK(kind == Approx(std::pow(0.9, 9.0 / 13)).epsilon(0.01));
  CHECK(beside == Approx(std::pow(1.1, 9.0 / 13)).epsilon(0.01));
}

TEST_CASE("devices of a kind beside others teach together, on whichever of the hosts that are alike") {
  PlannedJob planned = Planned();
  for (const char* device : {"a/cpu0", "c/cpu0"}) {
    planned.slowdowns[device] = {
        .device_kind = "fast", .host = "box", .measured_at_seconds = 9, .passes = {1.1, 1.1}};
  }
  // Of hosts of another make-up.
  planned.slowdowns["b/cpu0"] = {
      .device_kind = "slow", .host = "rack", .measured_at_seconds = 8, .passes = {1.1, 1.1}};
  ProfileLearner learner("gpt-1", planned, "tiny");
  std::vector<ProfileLearner::Lesson> lessons;
  for (int i = 0; i < 4; ++i)
    lessons = learner.Add(Step({{"a/cpu0", 1.5}, {"b/cpu0", 0.95}, {"c/cpu0", 1.3}}), 1);
  REQUIRE(lessons.size() == 2);
  const auto of_rack = lessons[0].host == "rack" ? 0 : 1;
  CHECK(lessons[of_rack].correction.factor == Approx(std::sqrt(0.95)));
  CHECK(lessons[1 - of_rack].host == "box");
  CHECK(lessons[1 - of_rack].device_kind == "fast");
  CHECK(lessons[1 - of_rack].correction.factor == Approx(std::sqrt(1.4)));
}

TEST_CASE("no device is faster for company") {
  PlannedJob planned = Planned();
  // A job before taught 1.2 instead of the measured 1.1.
  planned.slowdowns["b/cpu0"] = {
      .device_kind = "slow", .host = "box", .measured_at_seconds = 9, .passes = {1.1, 1.2}};
  ProfileLearner learner("gpt-1", planned, "tiny");
  double beside = 0;
  for (int i = 0; i < 9; ++i) {
    for (const auto& lesson : learner.Add(Step({{"b/cpu0", 0.5}}), 1)) beside = lesson.correction.factor;
  }
  CHECK(1.1 * beside == Approx(1));
}

TEST_CASE("steps that do not agree, and what cannot be, teach nothing") {
  ProfileLearner learner("gpt-1", Planned(), "tiny");
  for (const double factor : {0.8, 1.0, 1.3, 0.7, 1.5, 1.1, 0.9})
    CHECK(learner.Add(Step({{"b/cpu0", factor}}), 1).empty());
  for (int i = 0; i < 9; ++i) CHECK(learner.Add(Step({{"a/cpu0", 50}, {"c/cpu0", 50}}), 1).empty());
  CHECK(learner.Add(Step({{"elsewhere/cpu0", 3}}), 1).empty());
  PlannedJob emulated = Planned();
  emulated.report.emulated = {"a/cpu0", "b/cpu0", "c/cpu0"};
  ProfileLearner rehearsal("gpt-1", emulated, "tiny");
  for (int i = 0; i < 9; ++i) CHECK(rehearsal.Add(Step({{"a/cpu0", 2}}), 1).empty());
}

TEST_CASE("each class of times is learnt by itself, about the profile that it is from") {
  for (const TimeClass slow : kTimeClasses) {
    CAPTURE(NameOf(slow));
    ProfileLearner learner("gpt-1", Planned(), "tiny");
    std::vector<ProfileLearner::Lesson> lessons;
    for (int i = 0; i < 4; ++i) lessons = learner.Add(WholeStep("b/cpu0", {{slow, 2}}), 1);
    if (slow == TimeClass::kPasses) {
      REQUIRE(lessons.size() == 2);
      CHECK(lessons[1].times == TimeClass::kRecomputations);
      CHECK(lessons[1].correction.factor == 1);
      lessons.pop_back();
    }
    REQUIRE(lessons.size() == 1);
    CHECK(lessons[0].times == slow);
    CHECK(lessons[0].device_kind == "slow");
    CHECK(lessons[0].shape ==
          (slow == TimeClass::kFetches || slow == TimeClass::kStores ? kCopiesShape : "tiny"));
    CHECK(lessons[0].correction.factor == Approx(std::sqrt(2.0)));
  }
}

TEST_CASE(
    "recomputations that are as planned are told once passes are, lest they go by the factor of those") {
  const bool own = GENERATE(false, true);
  const double planned_factor = GENERATE(1.0, 1.1);
  CAPTURE(own, planned_factor);
  PlannedJob planned = Planned();
  SetFactor(planned, "slow", TimeClass::kRecomputations, planned_factor);
  for (TimesUse& use : planned.times_used) {
    if (own && use.times == TimeClass::kRecomputations) use.correction = {{.factor = planned_factor}};
  }
  ProfileLearner learner("gpt-1", planned, "tiny");
  std::map<TimeClass, std::vector<double>> told;
  for (int i = 0; i < 8; ++i) {
    const double passes = i < 4 ? 1 : 2;  // at first nothing is worth telling
    for (const auto& lesson : learner.Add(WholeStep("b/cpu0", {{TimeClass::kPasses, passes}}), 1)) {
      told[lesson.times].push_back(lesson.correction.factor);
      CHECK(lesson.device_kind == "slow");
    }
    if (i == 3) CHECK(told.empty());
  }
  for (int i = 0; i < 15; ++i) {
    for (const auto& lesson : learner.Add(WholeStep("b/cpu0", {{TimeClass::kPasses, 2}}), 1))
      told[lesson.times].push_back(lesson.correction.factor);
  }
  CHECK_FALSE(told[TimeClass::kPasses].empty());
  // Those with a factor of their own keep it.
  CHECK(told[TimeClass::kRecomputations] ==
        (own ? std::vector<double>() : std::vector<double>{planned_factor}));
}

TEST_CASE("copies of less than a millisecond teach nothing of the rate by which longer ones go") {
  const auto learnt = [](const std::vector<Taken>& taken) {
    ProfileLearner learner("gpt-1", Planned(), "tiny");
    std::map<TimeClass, double> factors;
    for (int i = 0; i < 4; ++i) {
      v1::Trace trace;
      AddLane("b/cpu0", taken, trace);
      for (const auto& lesson : learner.Add(trace, 1)) factors[lesson.times] = lesson.correction.factor;
    }
    return factors;
  };
  const Taken brief_fetch = {"fetch activations", 0.0009, 4}, brief_store = {"store activations", 0.0009, 4};
  CHECK(learnt({brief_fetch, brief_store, brief_fetch, brief_store}).empty());
  const std::map<TimeClass, double> factors =
      learnt({brief_fetch, {"fetch activations", 0.0011, 2}, {"store activations", 0.0011, 2}, brief_store});
  REQUIRE(factors.size() == 2);
  CHECK(factors.at(TimeClass::kFetches) == Approx(std::sqrt(2.0)));
  CHECK(factors.at(TimeClass::kStores) == Approx(std::sqrt(2.0)));
  // Other times are not predicted by a rate alone.
  CHECK(learnt({{"update", 0.0001, 2}}).count(TimeClass::kUpdates) == 1);
}

TEST_CASE("noise does not move updates, nor does what was not measured get a factor") {
  ProfileLearner noisy("gpt-1", Planned(), "tiny");
  for (const double noise : {0.95, 1.05, 1.0, 0.94, 1.06, 1.0, 0.9, 1.1})
    CHECK(noisy.Add(WholeStep("b/cpu0", {{TimeClass::kUpdates, 1.03 * noise}}), 1).empty());
  PlannedJob planned = Planned();
  std::erase_if(planned.times_used, [](const TimesUse& use) { return use.times == TimeClass::kUpdates; });
  ProfileLearner unmeasured("gpt-1", planned, "tiny");
  for (int i = 0; i < 9; ++i)
    CHECK(unmeasured.Add(WholeStep("b/cpu0", {{TimeClass::kUpdates, 2}}), 1).empty());
}

TEST_CASE("times that have something else in them are left") {
  const auto learnt = [](const PlannedJob& planned) {
    std::set<TimeClass> classes;
    ProfileLearner learner("gpt-1", planned, "tiny");
    std::map<TimeClass, double> all;
    for (const TimeClass times : kTimeClasses) all[times] = 2;
    for (int i = 0; i < 4; ++i) {
      for (const auto& lesson : learner.Add(WholeStep("b/cpu0", all), 1)) classes.insert(lesson.times);
    }
    return classes;
  };
  const std::set<TimeClass> copies = {TimeClass::kFetches, TimeClass::kStores};
  CHECK(learnt(Planned()) == std::set<TimeClass>(std::begin(kTimeClasses), std::end(kTimeClasses)));
  PlannedJob planned = Planned();
  planned.report.emulated = {"b/cpu0"};
  CHECK(learnt(planned).empty());
  planned = Planned();
  planned.plan.units[1].devices.push_back("d/cpu0");  // their profiles are of shares
  CHECK(learnt(planned).empty());
  planned = Planned();
  planned.passes_as_profiled = false;
  CHECK(learnt(planned) ==
        std::set<TimeClass>{TimeClass::kUpdates, TimeClass::kNorms, TimeClass::kFetches, TimeClass::kStores});
  planned.plan.units[1].window_layers = 2;
  CHECK(learnt(planned) == copies);
  planned = Planned();
  planned.alone_on_host.erase("b/cpu0");  // though nothing was measured of it beside others
  CHECK(learnt(planned) == std::set<TimeClass>{TimeClass::kPasses, TimeClass::kRecomputations,
                                               TimeClass::kUpdates, TimeClass::kNorms});
  planned = Planned();
  planned.plan.post_validation = true;
  CHECK(learnt(planned) == std::set<TimeClass>{TimeClass::kPasses, TimeClass::kRecomputations,
                                               TimeClass::kFetches, TimeClass::kStores});
}

TEST_CASE("beside others updates and norms are slowed down together, and nothing is learnt about the kind") {
  PlannedJob planned = Planned();
  planned.slowdowns["b/cpu0"] = {.device_kind = "slow",
                                 .host = "box",
                                 .measured_at_seconds = 9,
                                 .passes = {1.1, 1.1},
                                 .updates = {1.5, 1.5}};
  ProfileLearner learner("gpt-1", planned, "tiny");
  std::vector<ProfileLearner::Lesson> lessons;
  for (int i = 0; i < 4; ++i) {
    lessons = learner.Add(WholeStep("b/cpu0", {{TimeClass::kUpdates, 2},
                                               {TimeClass::kNorms, 2},
                                               {TimeClass::kFetches, 2},
                                               {TimeClass::kRecomputations, 2}}),
                          1);
  }
  REQUIRE(lessons.size() == 1);
  CHECK(lessons[0].times == TimeClass::kUpdates);
  CHECK(lessons[0].device_kind == "slow");
  CHECK(lessons[0].host == "box");
  CHECK(lessons[0].shape == "tiny");
  CHECK(lessons[0].correction.factor == Approx(std::sqrt(2.0)));
}

TEST_CASE("a factor is found through noise and the odd step that was disturbed", "[property]") {
  const uint64_t seed = GENERATE(range(uint64_t{0}, uint64_t{100}));
  std::mt19937_64 random(seed);
  const double factor = std::uniform_real_distribution<double>(0.5, 2)(random);
  CAPTURE(seed, factor);
  if (std::abs(factor - 1) < 0.05) return;
  ProfileLearner learner("gpt-1", Planned(), "tiny");
  double told = 0;
  for (int i = 0; i < 40; ++i) {
    const double noise = std::normal_distribution<double>(1, 0.01)(random);
    const double disturbed = random() % 8 == 0 ? 3 : 1;
    for (const auto& lesson : learner.Add(Step({{"b/cpu0", factor * noise * disturbed}}), 1))
      told = lesson.correction.factor;
  }
  CHECK(told == Approx(std::pow(factor, 15.0 / 19)).epsilon(0.03));
}

// Beside Planned()'s, two more of the fast kind.
PlannedJob PlannedWithFour() {
  PlannedJob planned = Planned();
  for (const char* device : {"d/cpu0", "e/cpu0"}) {
    planned.report.explanation.devices.push_back({.name = device, .kind = "fast", .used = true});
    planned.plan.units.push_back({.devices = {device}});
    planned.alone_on_host.insert(device);
  }
  return planned;
}

TEST_CASE("a device that is slow among its kind is told apart, and teaches nothing about the kind") {
  ProfileLearner learner("gpt-1", PlannedWithFour(), "tiny");
  std::map<std::string, double> told;
  for (int step = 0; step < 15; ++step) {
    for (const auto& lesson :
         learner.Add(Step({{"a/cpu0", 1}, {"c/cpu0", 1.01}, {"d/cpu0", 1.6}, {"e/cpu0", 0.99}}), 1)) {
      CHECK(lesson.times == TimeClass::kPasses);
      CHECK(lesson.device_kind == "fast");
      CHECK(lesson.shape == "tiny");
      CHECK(lesson.measured_at_seconds == 7);
      told[lesson.device] = lesson.correction.factor;
    }
  }
  REQUIRE(told.size() == 1);
  CHECK(told.at("d/cpu0") == Approx(std::pow(1.6, 15.0 / 19)).margin(0.1));
}

TEST_CASE("all of a kind that are slower are none that is slow among them, nor is one of two") {
  ProfileLearner all("gpt-1", PlannedWithFour(), "tiny"), two("gpt-1", Planned(), "tiny");
  for (int step = 0; step < 15; ++step) {
    for (const auto& lesson :
         all.Add(Step({{"a/cpu0", 1.6}, {"c/cpu0", 1.59}, {"d/cpu0", 1.61}, {"e/cpu0", 1.6}}), 1))
      CHECK(lesson.device.empty());
    for (const auto& lesson : two.Add(Step({{"a/cpu0", 1}, {"c/cpu0", 1.6}}), 1))
      CHECK(lesson.device.empty());
  }
}

TEST_CASE(
    "a device that was planned to be slow among its kind, and is not any more, is soon planned as the "
    "others") {
  PlannedJob planned = PlannedWithFour();
  planned.paces["d/cpu0"] = {.factor = 1.5};
  ProfileLearner same("gpt-1", planned, "tiny");
  for (int step = 0; step < 15; ++step)
    CHECK(same.Add(Step({{"a/cpu0", 1}, {"c/cpu0", 1}, {"d/cpu0", 1}, {"e/cpu0", 1}}), 1).empty());
  // What was believed counts like some steps, so one attempt leaves a little of it.
  for (int attempt = 0; attempt < 2; ++attempt) {
    ProfileLearner mended("gpt-1", planned, "tiny");
    const double planned_pace = planned.paces.at("d/cpu0").factor;
    for (int step = 0; step < 15; ++step) {
      for (const auto& lesson :
           mended.Add(Step({{"a/cpu0", 1}, {"c/cpu0", 1}, {"d/cpu0", 1 / planned_pace}, {"e/cpu0", 1}}), 1))
        planned.paces["d/cpu0"] = lesson.correction;
    }
    CHECK(planned.paces.at("d/cpu0").factor < planned_pace);
  }
  CHECK(planned.paces.at("d/cpu0").factor == 1);
}

TEST_CASE("a device that stays slow among its kind is seen again, without a word, every few hours") {
  PlannedJob planned = PlannedWithFour();
  planned.paces["d/cpu0"] = {.factor = 1.5, .at_seconds = 1'000'000};
  ProfileLearner learner("gpt-1", planned, "tiny");
  std::vector<double> told;
  for (int step = 0; step < 100; ++step) {
    const double now = 1'000'000 + 600 * step;
    for (const auto& lesson :
         learner.Add(Step({{"a/cpu0", 1}, {"c/cpu0", 1}, {"d/cpu0", 1}, {"e/cpu0", 1}}), now)) {
      CHECK(lesson.device == "d/cpu0");
      CHECK(lesson.correction.factor == 1.5);
      CHECK_FALSE(lesson.is_news);
      told.push_back(now);
    }
  }
  CHECK(told.size() == 4);  // of 16 hours and a half
}

TEST_CASE(
    "a device is held against those of its kind that hold the same blocks, and teaches the kind nothing "
    "where it was apart") {
  PlannedJob pipeline = PlannedWithFour();
  for (size_t u = 0; u < pipeline.plan.units.size(); ++u)
    pipeline.plan.units[u].chunks = {{static_cast<int>(u), static_cast<int>(u) + 1}};
  ProfileLearner stages("gpt-1", pipeline, "tiny");
  PlannedJob alone = Planned();
  alone.paces["a/cpu0"] = {.factor = 1.5};
  alone.report.explanation.devices[2].used = false;  // the other one of its kind
  alone.plan.units.pop_back();
  alone.report.explanation.devices.pop_back();
  ProfileLearner mended("gpt-1", alone, "tiny");
  for (int step = 0; step < 15; ++step) {
    for (const auto& lesson :
         stages.Add(Step({{"a/cpu0", 1}, {"c/cpu0", 1}, {"d/cpu0", 1}, {"e/cpu0", 1.3}}), 1))
      CHECK(lesson.device.empty());
    CHECK(mended.Add(Step({{"a/cpu0", 1 / 1.5}}), 1).empty());
  }
}

TEST_CASE("devices that are slow now and then are not told to be so back and forth") {
  std::mt19937_64 random(3);
  ProfileLearner learner("gpt-1", PlannedWithFour(), "tiny");
  int lessons = 0;
  for (int step = 0; step < 200; ++step) {
    std::map<std::string, double> times;
    for (const char* device : {"a/cpu0", "c/cpu0", "d/cpu0", "e/cpu0"})
      times[device] = random() % 7 == 0 ? 2 : 1;
    for (const auto& lesson : learner.Add(Step(times), 1)) lessons += lesson.device.empty() ? 0 : 1;
  }
  CHECK(lessons == 0);
}

v1::DeviceProfile ProfileOf(const std::string& kind, double measured_at_seconds,
                            const std::string& shape = "tiny") {
  v1::DeviceProfile profile;
  profile.set_device_kind(kind);
  profile.set_shape(shape);
  profile.set_measured_at_seconds(measured_at_seconds);
  profile.add_times()->set_micro_batch_sequences(1);
  return profile;
}

TEST_CASE("what a device takes among its kind is kept, and said in words") {
  const TemporaryDirectory directory;
  const std::unique_ptr<Store> store = OpenStore(directory);
  REQUIRE(store->PutProfile(ProfileOf("fast", 7)).ok());
  ProfileLearner learner("gpt-1", PlannedWithFour(), "tiny");
  std::vector<std::string> said;
  for (int step = 0; step < 8; ++step) {
    for (std::string& line : NoteMeasuredStep(
             *store, learner, Step({{"a/cpu0", 1}, {"c/cpu0", 1}, {"d/cpu0", 2}, {"e/cpu0", 1}})))
      said.push_back(std::move(line));
  }
  REQUIRE(said.size() == 1);
  CHECK_THAT(said[0],
             Catch::StartsWith("d/cpu0 takes 1.60 times as long as the others of fast, over 8 traced steps"));
  const v1::DeviceProfile now = store->ListProfiles()->at(0);
  REQUIRE(now.devices_size() == 1);
  CHECK(now.devices(0).device() == "d/cpu0");
  CHECK_FALSE(now.has_correction());
}

TEST_CASE("what a step taught is in the store, unless the profile is another by now") {
  const TemporaryDirectory directory;
  const std::unique_ptr<Store> store = OpenStore(directory);
  for (const double measured_at : {7.0, 8.0}) {
    REQUIRE(store->PutProfile(ProfileOf("slow", measured_at)).ok());
    ProfileLearner learner("gpt-1", Planned(), "tiny");
    std::vector<std::string> said;
    for (int i = 0; i < 4; ++i) said = NoteMeasuredStep(*store, learner, Step({{"b/cpu0", 1.25}}));
    const v1::DeviceProfile now = store->ListProfiles()->at(0);
    if (measured_at == 7) {
      REQUIRE(said.size() == 1);
      CHECK_THAT(said[0], Catch::Contains("1.12 times"));
      CHECK(now.correction().factor() == Approx(std::sqrt(1.25)));
      CHECK(now.correction().job_id() == "gpt-1");
    } else {
      CHECK(said.empty());
      CHECK_FALSE(now.has_correction());
    }
  }
}

TEST_CASE("a device whose updates take twice as long is said to, and what was known of its passes stays") {
  const TemporaryDirectory directory;
  const std::unique_ptr<Store> store = OpenStore(directory);
  for (const char* shape : {"tiny", kCopiesShape}) {
    REQUIRE(store->PutProfile(ProfileOf("slow", 7, shape)).ok());
  }
  v1::ProfileCorrection passes;
  passes.set_factor(1.1);
  REQUIRE(store->PutCorrection("slow", "tiny", 7, passes).value());
  PlannedJob planned = Planned();
  SetFactor(planned, "slow", TimeClass::kPasses, 1.1);
  ProfileLearner learner("gpt-1", planned, "tiny");
  std::vector<std::string> said;
  for (int i = 0; i < 4; ++i) {
    said = NoteMeasuredStep(*store, learner,
                            WholeStep("b/cpu0", {{TimeClass::kUpdates, 2}, {TimeClass::kFetches, 1.5}}));
  }
  REQUIRE(said.size() == 2);
  CHECK_THAT(said[0], Catch::StartsWith("updates of slow take 1.41 times as long as was measured"));
  CHECK_THAT(said[1], Catch::StartsWith("fetches of slow take 1.22 times as long as was measured"));
  const std::vector<v1::DeviceProfile> profiles = store->ListProfiles().value();
  REQUIRE(profiles.size() == 2);
  for (const v1::DeviceProfile& now : profiles) {
    REQUIRE(now.other_corrections_size() == 1);
    const v1::ProfileCorrection& learnt = now.other_corrections(0);
    if (now.shape() == "tiny") {
      CHECK(now.correction().factor() == 1.1);
      CHECK(learnt.times() == v1::TIME_CLASS_UPDATES);
      CHECK(learnt.factor() == Approx(std::sqrt(2.0)));
    } else {
      CHECK_FALSE(now.has_correction());
      CHECK(learnt.times() == v1::TIME_CLASS_FETCHES);
      CHECK(learnt.factor() == Approx(std::sqrt(1.5)));
    }
  }
}

TEST_CASE(
    "what a step taught about a host is in the store, unless it was measured anew, and is planned with") {
  const TemporaryDirectory directory;
  const std::unique_ptr<Store> store = OpenStore(directory);
  v1::HostSlowdown measured;
  measured.set_host("box");
  measured.set_shape("tiny");
  measured.set_measured_at_seconds(9);
  for (const auto& [device, kind] :
       {std::pair("b/cpu0", "slow"), std::pair("b/cpu1", "fast"), std::pair("b/cpu2", "slow")}) {
    v1::SharedSlowdown& shared = *measured.add_devices();
    shared.set_device(device);
    shared.set_device_kind(kind);
    shared.set_factor(1.1);
  }
  REQUIRE(store->PutHostSlowdown(measured).ok());
  for (const double measured_at : {9.0, 8.0}) {
    CAPTURE(measured_at);
    PlannedJob planned = Planned();
    planned.slowdowns["b/cpu0"] = {
        .device_kind = "slow", .host = "box", .measured_at_seconds = measured_at, .passes = {1.1, 1.1}};
    ProfileLearner learner("gpt-1", planned, "tiny");
    std::vector<std::string> said;
    for (int i = 0; i < 4; ++i)
      said = NoteMeasuredStep(*store, learner, Step({{"b/cpu0", measured_at == 9 ? 1.25 : 2}}));
    const v1::HostSlowdown now = store->ListHostSlowdowns()->at(0);
    for (const int of_kind : {0, 2})
      CHECK(now.devices(of_kind).correction().factor() == Approx(std::sqrt(1.25)));
    CHECK_FALSE(now.devices(1).has_correction());
    if (measured_at == 9) {
      REQUIRE(said.size() == 1);
      CHECK_THAT(said[0],
                 Catch::Contains("slow beside the others of its host") && Catch::Contains("1.12 times"));
    } else {
      CHECK(said.empty());
    }
  }
  REQUIRE(store->PutHostSlowdown(measured).ok());
  CHECK_FALSE(store->ListHostSlowdowns()->at(0).devices(0).has_correction());
}

}  // namespace
}  // namespace medley
