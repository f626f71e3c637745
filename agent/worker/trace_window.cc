#include "agent/worker/trace_window.h"

namespace medley {

void TraceWindow::Begin(int64_t step) {
  MutexLock lock(mutex_);
  current_ = step;
}

v1::TraceTaskResponse TraceWindow::Ask(const v1::TraceSteps& asked) {
  MutexLock lock(mutex_);
  v1::TraceTaskResponse answer;
  answer.set_current_step(static_cast<uint32_t>(current_));
  if (current_ == 0) return answer;
  if (asked.steps() == 0) {
    first_ = last_ = 0;
  } else if (asked.first_step() > current_) {
    first_ = asked.first_step();
    last_ = first_ + asked.steps() - 1;
    answer.set_accepted(true);
  }
  return answer;
}

TraceWindow::Verdict TraceWindow::StepEnded(int64_t step) {
  MutexLock lock(mutex_);
  current_ = step + 1;
  if (first_ == 0 || step < first_) return {};
  const Verdict verdict{.traced = step <= last_, .finished = step >= last_};
  if (verdict.finished) first_ = last_ = 0;
  return verdict;
}

}  // namespace medley
