#include "coordinator/orchestrator/profile_learning.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "coordinator/store/store_under_test.h"

namespace medley {
namespace {

PlannedJob Planned() {
  PlannedJob planned;
  for (const auto& [device, kind] :
       {std::pair("a/cpu0", "fast"), std::pair("b/cpu0", "slow"), std::pair("c/cpu0", "fast")}) {
    planned.report.explanation.devices.push_back({.name = device, .kind = kind, .used = true});
  }
  for (const char* kind : {"fast", "slow"}) {
    planned.report.profiles.push_back({.device_kind = kind, .measured_at_seconds = 7});
  }
  return planned;
}

// Each device forward for 1 s and backward for 2 s as predicted, but `times` as long; and an update that
// takes for ever.
v1::Trace Step(const std::map<std::string, double>& times) {
  v1::Trace trace;
  for (const auto& [device, factor] : times) {
    v1::TraceLane& lane = *trace.add_lanes();
    lane.set_device(device);
    double at = 0;
    for (const auto& [kind, seconds] : {std::pair("forward", 1.0), std::pair("backward", 2.0)}) {
      v1::TraceInstruction& instruction = *lane.add_instructions();
      instruction.set_kind(kind);
      instruction.set_predicted_start_seconds(10);
      instruction.set_predicted_end_seconds(10 + seconds);
      instruction.set_measured_start_seconds(at);
      at += seconds * factor;
      instruction.set_measured_end_seconds(at);
    }
    v1::TraceInstruction& update = *lane.add_instructions();
    update.set_kind("update parameters");
    update.set_predicted_end_seconds(1);
    update.set_measured_end_seconds(100);
  }
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
  planned.corrections["slow"] = 1.2;
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
      .host = "box", .measured_at_seconds = 9, .measured_factor = 1.02, .planned_factor = 1.02};
  ProfileLearner learner("gpt-1", planned, "tiny");
  double kind = 0, beside = 0;
  for (int i = 0; i < 9; ++i) {
    for (const auto& lesson : learner.Add(Step({{"a/cpu0", 0.9}, {"b/cpu0", 1.1}, {"c/cpu0", 0.9}}), 1)) {
      if (lesson.device.empty()) {
        CHECK(lesson.device_kind == "fast");
        kind = lesson.correction.factor;
      } else {
        CHECK(lesson.device == "b/cpu0");
        CHECK(lesson.host == "box");
        CHECK(lesson.measured_at_seconds == 9);
        beside = lesson.correction.factor;
      }
    }
  }
  CHECK(kind == Approx(std::pow(0.9, 9.0 / 13)).epsilon(0.01));
  CHECK(beside == Approx(std::pow(1.1, 9.0 / 13)).epsilon(0.01));
}

TEST_CASE("no device is faster for company") {
  PlannedJob planned = Planned();
  // A job before taught 1.2 instead of the measured 1.1.
  planned.slowdowns["b/cpu0"] = {
      .host = "box", .measured_at_seconds = 9, .measured_factor = 1.1, .planned_factor = 1.2};
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

TEST_CASE("what a step taught is in the store, unless the profile is another by now") {
  const TemporaryDirectory directory;
  const std::unique_ptr<Store> store = OpenStore(directory);
  v1::DeviceProfile profile;
  profile.set_device_kind("slow");
  profile.set_shape("tiny");
  profile.add_times()->set_micro_batch_sequences(1);
  for (const double measured_at : {7.0, 8.0}) {
    profile.set_measured_at_seconds(measured_at);
    REQUIRE(store->PutProfile(profile).ok());
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

TEST_CASE(
    "what a step taught about a host is in the store, unless it was measured anew, and is planned with") {
  const TemporaryDirectory directory;
  const std::unique_ptr<Store> store = OpenStore(directory);
  v1::HostSlowdown measured;
  measured.set_host("box");
  measured.set_shape("tiny");
  measured.set_measured_at_seconds(9);
  for (const char* device : {"b/cpu0", "c/cpu0"}) {
    v1::SharedSlowdown& shared = *measured.add_devices();
    shared.set_device(device);
    shared.set_device_kind("slow");
    shared.set_factor(1.1);
  }
  REQUIRE(store->PutHostSlowdown(measured).ok());
  for (const double measured_at : {9.0, 8.0}) {
    CAPTURE(measured_at);
    PlannedJob planned = Planned();
    planned.slowdowns["b/cpu0"] = {
        .host = "box", .measured_at_seconds = measured_at, .measured_factor = 1.1, .planned_factor = 1.1};
    ProfileLearner learner("gpt-1", planned, "tiny");
    std::vector<std::string> said;
    for (int i = 0; i < 4; ++i)
      said = NoteMeasuredStep(*store, learner, Step({{"b/cpu0", measured_at == 9 ? 1.25 : 2}}));
    const v1::HostSlowdown now = store->ListHostSlowdowns()->at(0);
    CHECK(now.devices(0).correction().factor() == Approx(std::sqrt(1.25)));
    CHECK_FALSE(now.devices(1).has_correction());
    if (measured_at == 9) {
      REQUIRE(said.size() == 1);
      CHECK_THAT(said[0],
                 Catch::Contains("b/cpu0 beside the others of its host") && Catch::Contains("1.12 times"));
    } else {
      CHECK(said.empty());
    }
  }
  REQUIRE(store->PutHostSlowdown(measured).ok());
  CHECK_FALSE(store->ListHostSlowdowns()->at(0).devices(0).has_correction());
}

}  // namespace
}  // namespace medley
