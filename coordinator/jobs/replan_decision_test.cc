#include "coordinator/jobs/replan_decision.h"

#include <catch2/catch.hpp>

namespace medley {
namespace {

const ReplanQuestion kQuestion = {.measured_step_seconds = 2,
                                  .predicted_step_seconds = 2,
                                  .predicted_then_step_seconds = 1,
                                  .remaining_steps = 100,
                                  .pause_seconds = 20};

TEST_CASE("a plan is worth its pause when the rest of the job gains more than twice that") {
  CHECK(DecideReplan(kQuestion).worth_it);
  ReplanQuestion question = kQuestion;
  question.remaining_steps = 40;  // gains 40 s
  CHECK_FALSE(DecideReplan(question).worth_it);
  question.remaining_steps = 41;
  CHECK(DecideReplan(question).worth_it);
  question.remaining_steps = 0;
  CHECK_FALSE(DecideReplan(question).worth_it);
  question = kQuestion;
  question.predicted_then_step_seconds = 2;
  question.pause_seconds = 0;
  CHECK_FALSE(DecideReplan(question).worth_it);
  question.predicted_then_step_seconds = 3;
  CHECK_FALSE(DecideReplan(question).worth_it);
}

TEST_CASE("the prediction is taken to be off as much as that of the plan that runs") {
  ReplanQuestion question = kQuestion;
  question.measured_step_seconds = 3;
  const ReplanDecision decision = DecideReplan(question);
  CHECK(decision.now_step_seconds == 3);
  CHECK(decision.then_step_seconds == 1.5);
  question.measured_step_seconds = 0;  // not known yet
  CHECK(DecideReplan(question).now_step_seconds == 2);
  CHECK(DecideReplan(question).then_step_seconds == 1);
}

TEST_CASE(
    "speeds are supposed to last for no longer than a plan has been in use, and less than predictions err is "
    "nothing") {
  ReplanQuestion question = kQuestion;
  question.steps_so_far = 41;
  CHECK(DecideReplan(question).worth_it);
  CHECK(DecideReplan(question).text ==
        "a step takes 2 s now and would take 1 s: 41 s less over as many steps as were made so, 41, for a "
        "pause of 20 s");
  question.steps_so_far = 40;
  CHECK_FALSE(DecideReplan(question).worth_it);
  question.steps_so_far = 1000;  // of which 100 are left
  CHECK(DecideReplan(question).text == DecideReplan(kQuestion).text);
  question.remaining_steps = 40;
  CHECK_FALSE(DecideReplan(question).worth_it);
  question = {.measured_step_seconds = 2,
              .predicted_step_seconds = 2,
              .predicted_then_step_seconds = 1.95,
              .remaining_steps = 1'000'000,
              .pause_seconds = 1};
  CHECK(DecideReplan(question).worth_it);  // of other devices
  question.steps_so_far = 1'000'000;
  CHECK_FALSE(DecideReplan(question).worth_it);
  question.predicted_then_step_seconds = 1.93;
  CHECK(DecideReplan(question).worth_it);
}

TEST_CASE("both figures are said") {
  CHECK(DecideReplan(kQuestion).text ==
        "a step takes 2 s now and would take 1 s: 100 s less over the remaining 100 steps, for a pause of 20 "
        "s");
  ReplanQuestion slower = kQuestion;
  slower.measured_step_seconds = slower.predicted_step_seconds = 0.00758;
  slower.predicted_then_step_seconds = 0.00821;
  slower.remaining_steps = 1822;
  slower.pause_seconds = 1;
  CHECK(DecideReplan(slower).text ==
        "a step takes 7.58 ms now and would take 8.21 ms: 1 s more over the remaining 1822 steps, for a "
        "pause of 1 "
        "s");
}

}  // namespace
}  // namespace medley
