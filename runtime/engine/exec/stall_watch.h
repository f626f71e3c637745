#pragma once
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "comm/transport/transport.h"
#include "runtime/base/mutex.h"
#include "runtime/engine/exec/activity_board.h"

namespace medley {

// Asks other ranks what they are at, all at once; blocks a few seconds at most, however many they are. The answers are
// in the order of `ranks`.
using AskRanks = std::function<std::vector<absl::StatusOr<std::string>>(const std::vector<int>& ranks)>;

// Who waits for whom, on both sides: what this rank is at and since when, what has come from the ranks that
// it needs so far, and what they say that they are at.
//
//   rank 0, step 12: reduce gradients of slice 2 (4.0 MiB) with rank 1 for 12.0 s; from rank 1 came 3.1 MiB
//   in 9 messages;
//   rank 1 says: step 12: forward of micro-batch 3 for 11.8 s
//
// `ask` may be null: then nobody is asked.
std::string StallReport(const ActivityBoard& board, const Activity& stalled, const Transport& transport,
                        const AskRanks& ask);

// Reports, while it lasts, what waits for others for longer than `patience`: once for each wait, and again
// whenever it has doubled. One thread of its own, which sleeps.
class StallWatch {
 public:
  struct Options {
    absl::Duration patience = absl::Seconds(10);
    AskRanks ask;
    std::function<void(const std::string&)> report;  // called from the watch's thread
  };
  // `board` and `transport` outlive this.
  StallWatch(const ActivityBoard& board, const Transport& transport, Options options);
  ~StallWatch();

 private:
  void Run();

  const ActivityBoard& board_;
  const Transport& transport_;
  const Options options_;
  Mutex mutex_;
  ConditionVariable changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace medley
