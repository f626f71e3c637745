#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "comm/session/session.h"
#include "runtime/base/clock.h"
#include "runtime/base/mutex.h"

namespace medley {

inline absl::Time Soon() { return Now() + absl::Seconds(20); }

// For what nothing tells of: looks again and again, for 20 s.
inline bool Eventually(const std::function<bool()>& holds) {
  for (const absl::Time end = Soon(); Now() < end; absl::SleepFor(absl::Milliseconds(1))) {
    if (holds()) return true;
  }
  return false;
}

// Options of rank `rank` of `size` in attempt 5, on loopback.
inline Session::Options TestOptions(int rank, int size) {
  return {.attempt = 5,
          .rank = rank,
          .size = size,
          .secret = "sixteen bytes or more",
          .payload = "payload of " + std::to_string(rank),
          .network_devices = "lo"};
}

// Who a session said has gone.
class GoneLog {
 public:
  struct Entry {
    bool left = false;
    std::string why;
    int times = 0;
  };
  void Attach(Session& session) {
    session.OnGone([this](int rank, bool left, const std::string& why) {
      MutexLock lock(mutex_);
      Entry& entry = entries_[rank];
      entry = {left, why, entry.times + 1};
      changed_.NotifyAll();
    });
  }
  // Waits until `rank` is gone, for at most 20 s; then, `times` is 0.
  Entry Await(int rank) {
    MutexLock lock(mutex_);
    changed_.WaitUntil(mutex_, Soon(), [&] { return entries_[rank].times > 0; });
    return entries_[rank];
  }
  int Count() {
    MutexLock lock(mutex_);
    int count = 0;
    for (const auto& [rank, entry] : entries_) count += entry.times;
    return count;
  }

 private:
  Mutex mutex_;
  ConditionVariable changed_;
  std::map<int, Entry> entries_;
};

// Sessions of all ranks in this process, each connected by a thread of its own.
struct TestSessions {
  std::vector<std::string> addresses;
  std::vector<std::unique_ptr<GoneLog>> gone;
  std::vector<std::unique_ptr<Session>> ranks;  // last: their threads write to the logs

  // Empty ranks: one could not listen.
  static TestSessions Listen(
      int size, const std::function<void(Session::Options&)>& change = [](auto&) {}) {
    TestSessions made;
    for (int rank = 0; rank < size; ++rank) {
      Session::Options options = TestOptions(rank, size);
      change(options);
      auto session = Session::Listen(options);
      if (!session.ok()) return {};
      made.addresses.push_back((*session)->address());
      made.gone.push_back(std::make_unique<GoneLog>());
      made.gone.back()->Attach(**session);
      made.ranks.push_back(*std::move(session));
    }
    return made;
  }
  std::vector<absl::Status> Connect(absl::Time deadline = Soon()) {
    std::vector<absl::Status> statuses(ranks.size());
    std::vector<std::thread> threads;
    for (size_t i = 0; i < ranks.size(); ++i) {
      threads.emplace_back([&, i] { statuses[i] = ranks[i]->Connect(addresses, deadline); });
    }
    for (std::thread& thread : threads) thread.join();
    return statuses;
  }
};

}  // namespace medley
