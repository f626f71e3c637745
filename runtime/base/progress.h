#pragma once
#include <atomic>
#include <cstdint>

namespace medley {

// What this process has got done so far: a number that grows with every instruction, file piece or phase that
// whoever works in it reports. One that stands still for long is the sign of a process that hangs.
// Thread-safe.
class Progress {
 public:
  static Progress& OfProcess() {
    static Progress progress;
    return progress;
  }

  // Something was done.
  void Add() { count_.fetch_add(1, std::memory_order_relaxed); }
  uint64_t count() const { return count_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> count_ = 0;
};

}  // namespace medley
