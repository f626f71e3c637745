#pragma once
#include <atomic>
#include <csignal>
#include <functional>
#include <thread>

#include "absl/time/time.h"

namespace medley {

// SIGINT and SIGTERM.
sigset_t Interrupts();

// Blocks SIGINT and SIGTERM for the calling thread and those that it starts from now on. To be called before
// gRPC's threads start: they are to leave Ctrl-C to an Interrupter.
void BlockInterrupts();

// While it lives, takes SIGINT and SIGTERM, which must be blocked in all threads, and calls `on_interrupt`
// and, every 50 ms, `on_tick` from a thread of its own. Either may be empty.
class Interrupter {
 public:
  explicit Interrupter(std::function<void()> on_interrupt, std::function<void()> on_tick = {});
  ~Interrupter();

  bool interrupted() const { return interrupted_; }
  // Lets time pass; less, if it is interrupted. Whether it was not.
  bool Sleep(absl::Duration duration) const;

 private:
  void Run();

  const std::function<void()> on_interrupt_, on_tick_;
  std::atomic<bool> stop_ = false, interrupted_ = false;
  std::thread thread_;
};

}  // namespace medley
