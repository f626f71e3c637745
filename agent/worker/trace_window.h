#pragma once
#include <cstdint>

#include "proto/medley/v1/agent.pb.h"
#include "runtime/base/mutex.h"

namespace medley {

// Which steps of a training somebody asked to be traced, between the thread that hears the agent and the one that trains. Thread-safe; a step
// costs one look.
class TraceWindow {
 public:
  // Training begins with `step`; until then nothing can be asked for.
  void Begin(int64_t step);

  // As Agent.TraceTask. current_step 0: it does not train.
  v1::TraceTaskResponse Ask(const v1::TraceSteps& asked);

  struct Verdict {
    bool traced = false;
    bool finished = false;  // it was the last of those that were asked for
  };
  // Of a step that has ended; the next one begins.
  Verdict StepEnded(int64_t step);

 private:
  Mutex mutex_;
  int64_t current_ ABSL_GUARDED_BY(mutex_) = 0;  // step; 0: it does not train
  int64_t first_ ABSL_GUARDED_BY(mutex_) = 0;    // step; 0: none is traced
  int64_t last_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace medley
