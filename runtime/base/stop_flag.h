#pragma once
#include <atomic>

namespace medley {

// Whether work is to stop that looks at `stop` from time to time; null: nobody stops it.
inline bool IsStopped(const std::atomic<bool>* stop) {
  return stop != nullptr && stop->load(std::memory_order_relaxed);
}

}  // namespace medley
