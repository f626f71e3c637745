#pragma once
#include <sys/types.h>

#include <deque>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "agent/channel/message_channel.h"
#include "proto/medley/v1/agent.pb.h"
#include "runtime/base/mutex.h"
#include "runtime/log/rate_limit.h"

namespace medley {

// One worker: a child process that runs one task on one device. What it says on its channel and on its
// standard error comes out as one row of replies that ends with its end. Texts that are no UTF-8 are made so. Of lines kLinesAtOnce come
// through, and then kLinesPerSecond; a line in their place says how many were left out. Its last words are kept all the same.
//
// Its end is the process's: others that it started and that hold its channel or its standard error open hold
// nothing up.
//
// Thread-safe. The destructor kills the child and reaps it; it waits for nothing but the kernel.
class WorkerProcess {
 public:
  struct Options {
    std::string program;  // path of medley-worker
    std::string name;     // for messages: "laptop/cpu0"
    // Environment is inherited; the child gets its channel as descriptor 3.
  };
  // Unavailable: the program cannot be started, with the system's reason.
  static absl::StatusOr<std::unique_ptr<WorkerProcess>> Start(const Options& options);
  ~WorkerProcess();

  absl::Status Send(const v1::WorkerCommand& command) { return channel_->Send(command); }
  // A ping: may be lost, never blocks.
  void TrySend(const v1::WorkerCommand& command) { (void)channel_->TrySend(command); }

  // The next reply; log lines come as events. The last one is always `finished` (or `failed` while
  // preparing): if the child dies without a word, one with Unavailable, `died`, how it ended, and its last
  // lines. DeadlineExceeded: nothing new; Unavailable: everything has been read.
  absl::StatusOr<v1::WorkerReply> Next(absl::Time deadline);

  // SIGKILL: a worker has nothing to tidy up; checkpoints are atomic. Does not wait. `why`, if any, is said
  // of its end.
  void Kill(const std::string& why = "");

  // Blocks until the process is no more, and with it what it held. False: not by `deadline`.
  bool AwaitGone(absl::Time deadline);

  pid_t pid() const { return pid_; }

  static constexpr int kLinesAtOnce = 200;
  static constexpr double kLinesPerSecond = 20;

 private:
  WorkerProcess(const Options& options, pid_t pid, int channel, int standard_error, int stop_log);
  void ReadChannel();
  void ReadLog();
  void AddLine(std::string line);
  // How many lines were left out, if any were: once there is room, or, `at_end`, in any case.
  void SayLeftOut(bool at_end);
  void PushLine(std::string line);
  void AwaitExit();
  void AwaitLogEnd();
  void Push(v1::WorkerReply reply);
  std::string DescribeEnd();

  const Options options_;
  const pid_t pid_;
  const std::unique_ptr<MessageChannel> channel_;
  const int standard_error_;
  const int stop_log_;  // an eventfd: the child is gone, and its log is to be read no further than it wrote
  Mutex mutex_;
  ConditionVariable changed_;
  std::deque<v1::WorkerReply> replies_ ABSL_GUARDED_BY(mutex_);
  RateLimit line_limit_ = RateLimit(kLinesAtOnce, kLinesPerSecond);  // of the log's thread
  std::deque<std::string> last_lines_ ABSL_GUARDED_BY(mutex_);
  std::string killed_because_ ABSL_GUARDED_BY(mutex_);
  std::string end_ ABSL_GUARDED_BY(mutex_);    // "was killed by signal 9 (Killed)"; set when it is gone
  bool gone_ ABSL_GUARDED_BY(mutex_) = false;  // reaped
  bool log_ended_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread log_reader_, reaper_, channel_reader_;
};

}  // namespace medley
