#include "agent/worker/trace_window.h"

#include <catch2/catch.hpp>

namespace medley {
namespace {

v1::TraceTaskResponse Ask(TraceWindow& window, uint32_t first_step, uint32_t steps) {
  v1::TraceSteps asked;
  asked.set_first_step(first_step);
  asked.set_steps(steps);
  return window.Ask(asked);
}

TEST_CASE("what does not train yet can be asked for nothing") {
  TraceWindow window;
  const v1::TraceTaskResponse answer = Ask(window, 5, 2);
  CHECK(answer.current_step() == 0);
  CHECK_FALSE(answer.accepted());
}

TEST_CASE("the steps that were asked for are traced, and no other; the last one says so") {
  TraceWindow window;
  window.Begin(1);
  CHECK_FALSE(window.StepEnded(1).traced);
  CHECK(Ask(window, 4, 2).accepted());
  for (int step = 2; step <= 8; ++step) {
    CAPTURE(step);
    const TraceWindow::Verdict verdict = window.StepEnded(step);
    CHECK(verdict.traced == (step == 4 || step == 5));
    CHECK(verdict.finished == (step == 5));
  }
}

TEST_CASE("a step that has begun is refused; of several requests the last counts") {
  TraceWindow window;
  window.Begin(11);
  CHECK(Ask(window, 13, 1).accepted());
  const v1::TraceTaskResponse late = Ask(window, 11, 5);
  CHECK(late.current_step() == 11);
  CHECK_FALSE(late.accepted());
  CHECK(window.StepEnded(12).traced == false);
  CHECK(window.StepEnded(13).traced);
  CHECK(Ask(window, 16, 1).accepted());
  CHECK(Ask(window, 0, 0).current_step() == 14);  // and none any more
  CHECK_FALSE(window.StepEnded(16).traced);
  CHECK(Ask(window, 18, 1).accepted());
  CHECK(Ask(window, 19, 1).accepted());
  CHECK_FALSE(window.StepEnded(18).traced);
  CHECK(window.StepEnded(19).finished);
}

}  // namespace
}  // namespace medley
