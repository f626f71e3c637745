#include "coordinator/orchestrator/live_trace.h"

#include <utility>

namespace medley {

void LiveTrace::Begin(uint32_t first_step, uint32_t steps) {
  MutexLock lock(mutex_);
  next_ = first_step;
  last_ = first_step + steps - 1;
  waiting_.clear();
  waiting_bytes_ = 0;
  lost_ = 0;
  finished_.clear();
}

void LiveTrace::Add(const v1::Trace& trace) {
  MutexLock lock(mutex_);
  if (last_ == 0 || trace.step() < next_ || trace.step() > last_) return;
  lost_ += trace.step() - next_;
  next_ = trace.step() + 1;
  const size_t bytes = trace.ByteSizeLong();
  if (waiting_.empty() || waiting_bytes_ + bytes <= most_waiting_bytes_) {
    waiting_.push_back(trace);
    waiting_bytes_ += bytes;
  } else {
    ++lost_;
  }
  changed_.NotifyAll();
}

void LiveTrace::Finished(int rank, uint32_t last_step) {
  MutexLock lock(mutex_);
  if (last_ == 0 || last_step != last_) return;  // of steps that were asked for before
  finished_.insert(rank);
  if (IsFinished()) lost_ += last_ + 1 - std::exchange(next_, last_ + 1);
  changed_.NotifyAll();
}

void LiveTrace::End(const absl::Status& why) {
  MutexLock lock(mutex_);
  if (!ended_) ended_ = why;
  changed_.NotifyAll();
}

absl::StatusOr<LiveTrace::News> LiveTrace::Await(absl::Time deadline) {
  MutexLock lock(mutex_);
  changed_.WaitUntil(mutex_, deadline,
                     [&] { return !waiting_.empty() || lost_ > 0 || IsFinished() || ended_.has_value(); });
  News news{.trace = std::nullopt, .lost_steps = std::exchange(lost_, 0)};
  if (!waiting_.empty()) {
    news.trace = std::move(waiting_.front());
    waiting_.pop_front();
    waiting_bytes_ -= news.trace->ByteSizeLong();
  }
  news.done = waiting_.empty() && IsFinished();
  if (ended_ && !news.done && !news.trace && news.lost_steps == 0) return *ended_;
  return news;
}

void LiveTrace::Close() {
  MutexLock lock(mutex_);
  closed_ = true;
}

bool LiveTrace::closed() const {
  MutexLock lock(mutex_);
  return closed_;
}

}  // namespace medley
