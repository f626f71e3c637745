#include "cli/progress.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "cli/number_format.h"
#include "cli/text_table.h"

namespace medley {
namespace {

v1::JobUpdate Update(v1::JobState state, uint32_t first_step, uint32_t last_step) {
  v1::JobUpdate update;
  v1::Job& job = *update.mutable_job();
  job.set_id("bible-1");
  job.mutable_spec()->set_steps(100);
  job.set_state(state);
  for (uint32_t i = first_step; i <= last_step; ++i) {
    v1::StepMetrics& step = *update.add_steps();
    step.set_step(i);
    step.set_loss(5.0 - i * 0.01);
    step.set_step_seconds(0.5);
    step.set_tokens(4096);
    *job.mutable_last_step() = step;
  }
  return update;
}

TEST_CASE("the display shows state, step, loss, speed against prediction, time left and the plan's devices") {
  v1::JobUpdate update = Update(v1::JOB_STATE_RUNNING, 1, 25);
  v1::Job& job = *update.mutable_job();
  job.set_measured_step_seconds(0.5);
  job.set_parameters(4'900'000);
  job.mutable_last_validation()->set_step(20);
  job.mutable_last_validation()->set_loss(4.9);
  job.mutable_plan()->set_predicted_step_seconds(0.4);
  v1::Plan& plan = *job.mutable_plan()->mutable_plan();
  plan.set_micro_batch_sequences(4);
  for (const char* device : {"a/cpu0", "b/cpu0"}) {
    v1::Unit& unit = *plan.add_units();
    unit.add_devices(device);
    unit.add_blocks()->set_end(8);
    v1::Route& route = *plan.add_routes();
    route.add_units(plan.units_size() - 1);
    route.set_micro_batches(2);
  }
  JobProgress progress;
  progress.Add(update);
  const std::vector<std::string> lines = LiveLines(progress, 200);
  REQUIRE(lines.size() == 6);
  CHECK(lines[0] == "bible-1  running  4.9M parameters");
  CHECK(lines[1] == "████████░░░░░░░░░░░░░░░░░░░░░░░░  step 25/100  25.0 %  37 s left");
  CHECK(lines[2].find("loss 4.7500  █") == 0);
  CHECK(lines[2].find("▁  newest 13 steps  validation 4.9000 at step 20") != std::string::npos);
  CHECK(lines[3] == "8.2k tokens/s  step 500.0 ms measured, 400.0 ms predicted (+25.0 %)");
  CHECK(lines[4] == "  a/cpu0  blocks 0-7  2 x 4 windows");
  CHECK(lines[5] == "  b/cpu0  blocks 0-7  2 x 4 windows");
}

TEST_CASE("no line of the display is wider than the terminal, whatever the job is called") {
  const int columns = GENERATE(1, 2, 20, 80);
  v1::JobUpdate update = Update(v1::JOB_STATE_RECOVERING, 1, 5);
  update.mutable_job()->set_id(std::string(100, 'x'));
  update.mutable_job()->set_state_reason("node \x1b[31mred\x1b[0m was lost\n");
  JobProgress progress;
  progress.Add(update);
  for (const std::string& line : LiveLines(progress, columns)) {
    CAPTURE(line);
    CHECK(DisplayWidth(line) <= static_cast<size_t>(columns));
    CHECK(line.find('\x1b') == std::string::npos);
    CHECK(line.find('\n') == std::string::npos);
  }
}

TEST_CASE("a job without steps has a display, too") {
  JobProgress progress;
  progress.Add(Update(v1::JOB_STATE_QUEUED, 1, 0));
  CHECK(LiveLines(progress, 100).size() == 2);
  CHECK(progress.newest_step() == 0);
}

TEST_CASE("steps that run again after a restart take the old ones' place") {
  JobProgress progress;
  progress.Add(Update(v1::JOB_STATE_RUNNING, 1, 10));
  progress.Add(Update(v1::JOB_STATE_RUNNING, 6, 7));
  REQUIRE(progress.steps().size() == 7);
  for (size_t i = 0; i < 7; ++i) CHECK(progress.steps()[i].step() == i + 1);
}

v1::JobUpdate OfAttempt(v1::JobUpdate update, uint32_t attempt) {
  update.mutable_job()->set_attempt(attempt);
  for (v1::StepMetrics& step : *update.mutable_steps()) step.set_attempt(attempt);
  if (update.job().last_step().step() > 0) update.mutable_job()->mutable_last_step()->set_attempt(attempt);
  return update;
}

TEST_CASE("after a restart the display is at the new attempt's step, even if that step itself was not sent") {
  JobProgress progress;
  progress.Add(OfAttempt(Update(v1::JOB_STATE_RUNNING, 1, 33), 1));
  CHECK(progress.newest_step() == 33);
  v1::JobUpdate update = OfAttempt(Update(v1::JOB_STATE_RUNNING, 21, 21), 2);
  update.clear_steps();
  progress.Add(update);
  CHECK(progress.newest_step() == 21);
  CHECK_THAT(LiveLines(progress, 200)[1], Catch::Contains("step 21/100"));
  CHECK_THAT(LiveLines(progress, 200)[0], Catch::Contains("attempt 2"));
  progress.Add(OfAttempt(Update(v1::JOB_STATE_RUNNING, 22, 24), 2));
  CHECK(progress.newest_step() == 24);
}

TEST_CASE("what is watched again begins after the newest checkpoint, and what was seen is no news") {
  JobProgress progress;
  v1::JobUpdate update = OfAttempt(Update(v1::JOB_STATE_RUNNING, 1, 33), 1);
  update.mutable_job()->set_checkpoint_step(20);
  progress.Add(update);
  CHECK(progress.watch_after() == 20);
  v1::StepMetrics step = progress.steps()[24];
  CHECK_FALSE(progress.IsNews(step));
  step.set_attempt(2);
  CHECK(progress.IsNews(step));
  step = progress.steps().back();
  step.set_step(34);
  CHECK(progress.IsNews(step));
}

TEST_CASE("rows of a discarded attempt are dropped") {
  v1::ListStepsResponse steps;
  const std::pair<uint32_t, uint32_t> rows[] = {{1, 1}, {2, 1}, {3, 1}, {4, 3},
                                                {5, 3}, {6, 2}, {7, 1}, {8, 1}};
  for (const auto& [number, attempt] : rows) {
    v1::StepMetrics& step = *steps.add_steps();
    step.set_step(number);
    step.set_attempt(attempt);
  }
  DropDiscarded(steps);
  REQUIRE(steps.steps_size() == 5);
  for (int i = 0; i < 5; ++i) CHECK(steps.steps(i).step() == static_cast<uint32_t>(i + 1));
}

TEST_CASE("the curve is of the newer half of the steps, so that the start does not flatten it") {
  v1::JobUpdate update = Update(v1::JOB_STATE_RUNNING, 1, 20);
  update.mutable_steps(0)->set_loss(1000);
  JobProgress progress;
  progress.Add(update);
  CHECK_THAT(LiveLines(progress, 200)[2], Catch::Contains("██▇▆▅▄▃▂▁▁  newest 10 steps"));
}

TEST_CASE("a checkpoint that cannot be written is said while training goes on, and that it can be again") {
  v1::JobUpdate update = Update(v1::JOB_STATE_RUNNING, 1, 1);
  PlainProgress plain;
  plain.Lines(update, 0);
  update.clear_steps();
  update.mutable_job()->set_checkpoint_problem("No space left on device");
  CHECK(plain.Lines(update, 1) == std::vector<std::string>{"no checkpoint: No space left on device"});
  CHECK(plain.Lines(update, 2).empty());
  JobProgress progress;
  progress.Add(update);
  CHECK(LiveLines(progress, 200).back() == "NO CHECKPOINT: No space left on device");
  update.mutable_job()->clear_checkpoint_problem();
  CHECK(plain.Lines(update, 3) == std::vector<std::string>{"checkpoints are written again"});
}

TEST_CASE("in a pipe a step has a line, at most one a second, and every change of state one") {
  PlainProgress plain;
  CHECK(plain.Lines(Update(v1::JOB_STATE_QUEUED, 1, 0), 0) == std::vector<std::string>{"bible-1 queued"});
  CHECK(plain.Lines(Update(v1::JOB_STATE_QUEUED, 1, 0), 1).empty());
  CHECK(plain.Lines(Update(v1::JOB_STATE_RUNNING, 1, 1), 2) ==
        std::vector<std::string>{"bible-1 running", "step 1/100  loss 4.9900  8.2k tokens/s  500.0 ms"});
  CHECK(plain.Lines(Update(v1::JOB_STATE_RUNNING, 2, 2), 2.5).empty());
  CHECK(plain.Lines(Update(v1::JOB_STATE_RUNNING, 3, 3), 3.1).size() == 1);
  v1::JobUpdate end = Update(v1::JOB_STATE_FAILED, 4, 5);
  end.mutable_job()->set_state_reason("a/cpu0: out of memory");
  CHECK(plain.Lines(end, 3.2) == std::vector<std::string>{"step 5/100  loss 4.9500  8.2k tokens/s  500.0 ms",
                                                          "bible-1 failed: a/cpu0: out of memory"});
}

TEST_CASE("a sparkline has its width at most, and its ends at the extremes") {
  const uint64_t seed = GENERATE(range(uint64_t{0}, uint64_t{50}));
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  std::vector<double> values(random() % 100);
  for (double& value : values)
    value = random() % 20 == 0 ? std::nan("") : static_cast<double>(random() % 1000);
  const int width = static_cast<int>(random() % 50);
  CHECK(DisplayWidth(Sparkline(values, width)) <= static_cast<size_t>(width));
  CHECK(Sparkline({1, 2, 3, 4, 5, 6, 7, 8}, 8) == "▁▂▃▄▅▆▇█");
  CHECK(Sparkline({5, 5}, 8) == "▁▁");
  CHECK(Sparkline({0, 0, 7, 7}, 2) == "▁█");
}

TEST_CASE("figures are short") {
  CHECK(FormatDuration(59.9) == "59 s");
  CHECK(FormatDuration(272) == "4 min 32 s");
  CHECK(FormatDuration(11100) == "3 h 05 min");
  CHECK(FormatDuration(187200) == "2 d 4 h");
  CHECK(FormatDuration(-1) == "0 s");
  CHECK(FormatStepSeconds(0) == "-");
  CHECK(FormatStepSeconds(0.00025) == "0.25 ms");
  CHECK(FormatStepSeconds(2.514) == "2.51 s");
  CHECK(FormatDifference(1.1, 1) == "+10.0 %");
  CHECK(FormatDifference(1.1, 0).empty());
  CHECK(FormatTime(0) == "-");
  CHECK(FormatTime(86400) == "1970-01-02 00:00:00");
}

TEST_CASE("no control character is printable, and all letters are") {
  CHECK(Printable("\x1b[2J\n\t\r\x7f") == "\\x1b[2J  \\x0d\\x7f");
  // U+009B, which is ESC [ in one character, and the first and the last of its kind.
  CHECK(Printable("\xC2\x9BK") == "\\x9bK");
  CHECK(Printable("\xC2\x80\xC2\x9F") == "\\x80\\x9f");
  // Other letters that begin or end with these bytes.
  const std::string letters = "\xC2\xA0\xC2\xBF \xC3\x9B \xE2\x80\x9B långt";
  CHECK(Printable(letters) == letters);
  CHECK(Printable("cut \xC2") == "cut \xC2");
}

TEST_CASE("a table's columns line up, numbers to the right") {
  CHECK(FormatTable({{"NAME", "STEP", "WHY"}, {"a", "5", ""}, {"långt", "100", "x"}}) ==
        "NAME   STEP  WHY\n"
        "a         5\n"
        "långt   100  x\n");
  CHECK(CutToWidth("långt", 3) == "lå…");
  CHECK(CutToWidth("abc", 3) == "abc");
}

TEST_CASE("a table that is too wide has its widest columns beneath the rows") {
  const std::vector<std::vector<std::string>> rows = {
      {"NAME", "STEP", "WHY", "PLAN"}, {"a", "5", "one two three four five", "x"}, {"b", "7", "", "y"}};
  CHECK(FormatTable(rows, 20) ==
        "NAME  STEP  PLAN\n"
        "a        5  x\n"
        "    why: one two\n"
        "         three four\n"
        "         five\n"
        "b        7  y\n");
  CHECK(FormatTable(rows, 41) == FormatTable(rows));
  CHECK(FormatFacts({{"a", "one two three"}, {"long", "x"}}, 14) == "a     one two\n      three\nlong  x\n");
}

}  // namespace
}  // namespace medley
