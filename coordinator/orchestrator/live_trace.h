#pragma once
#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/medley/v1/coordinator.pb.h"
#include "runtime/base/mutex.h"

namespace medley {

// The steps of one request for a trace of a running job: between the threads that hear of its ranks and the call that waits. What the call
// does not fetch is bounded in bytes; steps beyond that are lost, and counted. Thread-safe.
class LiveTrace {
 public:
  static constexpr size_t kMostWaitingBytes = size_t{16} << 20;

  explicit LiveTrace(int ranks, size_t most_waiting_bytes = kMostWaitingBytes)
      : ranks_(ranks), most_waiting_bytes_(most_waiting_bytes) {}

  // The steps that the ranks are asked for; until then, and of others, nothing is taken. Anew: what came before is forgotten.
  void Begin(uint32_t first_step, uint32_t steps);

  // A step of which all ranks' times are there. Ascending.
  void Add(const v1::Trace& trace);
  // The rank has said all that it says of the steps until `last_step`.
  void Finished(int rank, uint32_t last_step);
  // Nothing more comes, and why.
  void End(const absl::Status& why);

  struct News {
    std::optional<v1::Trace> trace;
    uint32_t lost_steps = 0;  // since the last news
    bool done = false;        // there will be no more
  };
  // The next news; without any, by `deadline`, none. The status of End, once all that came before was fetched.
  absl::StatusOr<News> Await(absl::Time deadline);

  // Nobody waits any more.
  void Close();
  bool closed() const;

 private:
  bool IsFinished() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return static_cast<int>(finished_.size()) == ranks_;
  }

  const int ranks_;
  const size_t most_waiting_bytes_;
  mutable Mutex mutex_;
  ConditionVariable changed_;
  uint32_t next_ ABSL_GUARDED_BY(mutex_) = 0;  // step
  uint32_t last_ ABSL_GUARDED_BY(mutex_) = 0;  // step; 0: it has not begun
  std::deque<v1::Trace> waiting_ ABSL_GUARDED_BY(mutex_);
  size_t waiting_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  uint32_t lost_ ABSL_GUARDED_BY(mutex_) = 0;
  std::set<int> finished_ ABSL_GUARDED_BY(mutex_);
  std::optional<absl::Status> ended_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace medley
