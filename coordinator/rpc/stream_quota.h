#pragma once
#include <map>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "runtime/base/mutex.h"

namespace medley {

// How many streams that last may be open at a time, each of which holds a thread of the server's: watches of jobs, and traces of
// those that run. So many that nobody who works gets there, and few enough that a client that forgets to end them takes none from others.
// Thread-safe.
class StreamQuota {
 public:
  static constexpr int kMostOfClient = 200;
  static constexpr int kMostOfAll = 2000;

  // An open stream. The quota outlives it.
  class Slot {
   public:
    Slot(Slot&& other) noexcept
        : quota_(std::exchange(other.quota_, nullptr)), client_(std::move(other.client_)) {}
    ~Slot() {
      if (quota_ != nullptr) quota_->Close(client_);
    }
    Slot(const Slot&) = delete;
    Slot& operator=(const Slot&) = delete;

   private:
    friend class StreamQuota;
    Slot(StreamQuota& quota, std::string client) : quota_(&quota), client_(std::move(client)) {}
    StreamQuota* quota_;
    std::string client_;
  };

  // `client`: the name that its certificate says, or where there is none its address.
  // ResourceExhausted: the client has as many as it may, or all together have; says which and how many.
  absl::StatusOr<Slot> Open(const std::string& client);

 private:
  void Close(const std::string& client);

  Mutex mutex_;
  std::map<std::string, int> open_ ABSL_GUARDED_BY(mutex_);  // by client; more than 0
  int all_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace medley
