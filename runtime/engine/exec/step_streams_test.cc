#include "runtime/engine/exec/step_streams.h"

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <random>
#include <thread>

#include "absl/strings/str_cat.h"

namespace medley {
namespace {

// `count` instructions on random streams that wait for up to three earlier ones.
StepProgram RandomProgram(uint64_t seed, int count) {
  std::mt19937_64 random(seed);
  StepProgram program;
  for (int i = 0; i < count; ++i) {
    Instruction instruction{.kind = InstructionKind::kForward,
                            .stream = static_cast<Stream>(random() % kStreams)};
    instruction.micro_batch = i;  // names it
    for (int& index : instruction.waits_for) {
      if (i > 0 && random() % 2 == 0) index = static_cast<int>(random() % i);
    }
    program.instructions.push_back(instruction);
  }
  return program;
}

const auto kNeverFails = [](const absl::Status&) { FAIL("on_failure without a failure"); };

TEST_CASE("every instruction runs once, after those before it in its stream and those it waits for",
          "[property]") {
  const uint64_t seed = GENERATE(range(uint64_t{0}, uint64_t{100}));
  CAPTURE(seed);
  const StepProgram program = RandomProgram(seed, 60);
  Mutex mutex;
  std::vector<int> begun, ended(60, -1);
  int clock = 0;
  std::vector<int> begun_at(60, -1);
  const StepRun run = RunStreams(
      program, Now(),
      [&](int index, MeasuredTime&) {
        const Instruction& instruction = program.instructions[index];
        MutexLock lock(mutex);
        begun.push_back(instruction.micro_batch);
        begun_at[instruction.micro_batch] = clock++;
        ended[instruction.micro_batch] = clock++;
        return absl::OkStatus();
      },
      kNeverFails);
  REQUIRE(run.status.ok());
  std::vector<int> sorted = begun;
  std::sort(sorted.begin(), sorted.end());
  for (int i = 0; i < 60; ++i) REQUIRE(sorted[i] == i);
  int last_of_stream[kStreams];
  std::fill_n(last_of_stream, kStreams, -1);
  for (int i = 0; i < 60; ++i) {
    CAPTURE(i);
    const Instruction& instruction = program.instructions[i];
    for (const int index : instruction.waits_for) {
      if (index < 0) continue;
      CHECK(ended[index] < begun_at[i]);
      CHECK(run.times[index].end_seconds <= run.times[i].start_seconds);
    }
    int& last = last_of_stream[static_cast<int>(instruction.stream)];
    if (last >= 0) {
      CHECK(ended[last] < begun_at[i]);
      CHECK(run.times[last].end_seconds <= run.times[i].start_seconds);
    }
    last = i;
    CHECK(run.times[i].start_seconds >= 0);
    CHECK(run.times[i].start_seconds <= run.times[i].end_seconds);
  }
}

TEST_CASE("streams run side by side: one that blocks waits for another that it does not depend on") {
  StepProgram program;
  program.instructions = {{.kind = InstructionKind::kForward, .stream = Stream::kCompute},
                          {.kind = InstructionKind::kSendActivation, .stream = Stream::kSendActivation}};
  std::atomic<bool> sent = false;
  const StepRun run = RunStreams(
      program, Now(),
      [&](int index, MeasuredTime&) {
        const Instruction& instruction = program.instructions[index];
        if (instruction.stream == Stream::kSendActivation) sent = true;
        while (!sent) std::this_thread::yield();
        return absl::OkStatus();
      },
      kNeverFails);
  CHECK(run.status.ok());
}

TEST_CASE("the first failure ends the step: nothing starts after it and on_failure is called once",
          "[property]") {
  const uint64_t seed = GENERATE(range(uint64_t{0}, uint64_t{100}));
  CAPTURE(seed);
  const StepProgram program = RandomProgram(seed, 40);
  const int culprit = static_cast<int>(seed % 40);
  Mutex mutex;
  std::vector<int> ran;
  int failures = 0;
  const StepRun run = RunStreams(
      program, Now(),
      [&](int index, MeasuredTime&) -> absl::Status {
        const Instruction& instruction = program.instructions[index];
        MutexLock lock(mutex);
        ran.push_back(instruction.micro_batch);
        if (instruction.micro_batch == culprit)
          return absl::InternalError(absl::StrCat("instruction ", culprit));
        return absl::OkStatus();
      },
      [&](const absl::Status& failure) {
        ++failures;
        CHECK(absl::IsInternal(failure));
      });
  CHECK(run.status == absl::InternalError(absl::StrCat("instruction ", culprit)));
  CHECK(failures == 1);
  for (const int index : ran) {  // nothing that depends on the culprit
    const Instruction& instruction = program.instructions[index];
    for (const int before : instruction.waits_for) CHECK((before != culprit));
    if (index > culprit) CHECK((instruction.stream != program.instructions[culprit].stream));
  }
}

TEST_CASE("on_failure wakes what blocks, and the first failure is the step's") {
  StepProgram program;
  program.instructions = {
      {.kind = InstructionKind::kForward, .stream = Stream::kCompute},
      {.kind = InstructionKind::kReceiveActivation, .stream = Stream::kReceiveActivation}};
  std::atomic<bool> woken = false;
  const StepRun run = RunStreams(
      program, Now(),
      [&](int index, MeasuredTime&) -> absl::Status {
        const Instruction& instruction = program.instructions[index];
        if (instruction.stream == Stream::kCompute) return absl::ResourceExhaustedError("first");
        while (!woken) std::this_thread::yield();
        return absl::AbortedError("woken");
      },
      [&](const absl::Status&) { woken = true; });
  CHECK(run.status == absl::ResourceExhaustedError("first"));
}

TEST_CASE("an empty program is a step that takes no time") {
  const StepRun run = RunStreams(
      {}, Now(), [](int, MeasuredTime&) { return absl::OkStatus(); }, kNeverFails);
  CHECK(run.status.ok());
  CHECK(run.times.empty());
}

}  // namespace
}  // namespace medley
