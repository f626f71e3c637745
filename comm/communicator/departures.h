#pragma once
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "runtime/base/mutex.h"

namespace medley {

// Tells of peers that have gone, each at its time, from a thread of its own, which sleeps else.
class Departures {
 public:
  struct Departure {
    int rank = 0;
    bool left = false;  // it had finished
    std::string why;
  };
  explicit Departures(std::function<void(const Departure&)> tell);
  // Joins the thread; what was not due is not told.
  ~Departures();
  Departures(const Departures&) = delete;
  Departures& operator=(const Departures&) = delete;

  // Does not block.
  void Add(Departure departure, absl::Duration delay);

 private:
  struct Due {
    absl::Time at;
    Departure departure;
  };
  void Run();

  const std::function<void(const Departure&)> tell_;
  Mutex mutex_;
  ConditionVariable changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<Due> due_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace medley
