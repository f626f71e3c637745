#include "runtime/engine/exec/step_streams.h"

#include <array>
#include <thread>

#include "runtime/base/clock.h"
#include "runtime/base/short_turns.h"

namespace medley {
namespace {

// What the streams of one step share.
class StepState {
 public:
  explicit StepState(size_t instructions) : done_(instructions, false) {}

  // Blocks until every instruction in `waits_for` is done; false if the step failed meanwhile.
  bool Await(absl::Span<const int> waits_for) {
    MutexLock lock(mutex_);
    changed_.WaitUntil(mutex_, absl::InfiniteFuture(), [&] {
      if (!failure_.ok()) return true;
      for (const int index : waits_for) {
        if (index >= 0 && !done_[index]) return false;
      }
      return true;
    });
    return failure_.ok();
  }

  // Returns true for the first failure.
  bool Finish(int index, const absl::Status& status) {
    MutexLock lock(mutex_);
    const bool first_failure = !status.ok() && failure_.ok();
    if (first_failure) failure_ = status;
    if (status.ok()) done_[index] = true;
    changed_.NotifyAll();
    return first_failure;
  }

  absl::Status failure() {
    MutexLock lock(mutex_);
    return failure_;
  }

 private:
  Mutex mutex_;
  ConditionVariable changed_;
  std::vector<bool> done_ ABSL_GUARDED_BY(mutex_);
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

StepRun RunStreams(const StepProgram& program, absl::Time started_at,
                   const std::function<absl::Status(int, MeasuredTime&)>& run,
                   const std::function<void(const absl::Status&)>& on_failure) {
  std::array<std::vector<int>, kStreams> streams;
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    streams[static_cast<int>(program.instructions[i].stream)].push_back(static_cast<int>(i));
  }
  StepState state(program.instructions.size());
  StepRun result{.started_at = started_at, .times = std::vector<MeasuredTime>(program.instructions.size())};
  const auto seconds = [&] { return absl::ToDoubleSeconds(Now() - result.started_at); };
  const auto run_stream = [&](const std::vector<int>& stream) {
    for (const int index : stream) {
      const Instruction& instruction = program.instructions[index];
      if (!state.Await(instruction.waits_for)) return;
      result.times[index].start_seconds = seconds();
      const absl::Status status = run(index, result.times[index]);
      result.times[index].end_seconds = seconds();
      if (state.Finish(index, status)) on_failure(status);
      if (!status.ok()) return;
    }
  };
  std::vector<std::thread> threads;
  for (int s = 1; s < kStreams; ++s) {
    if (streams[s].empty()) continue;
    threads.emplace_back([&, s] {
      AskForShortTurns();
      run_stream(streams[s]);
    });
  }
  run_stream(streams[static_cast<int>(Stream::kCompute)]);
  for (std::thread& thread : threads) thread.join();
  result.status = state.failure();
  return result;
}

}  // namespace medley
