#pragma once
#include <ucp/api/ucp.h>

#include <string>

#include "absl/status/status.h"
#include "comm/transport/transport.h"
#include "runtime/base/mutex.h"

namespace medley {

// A send or receive from UCX's point of view and from ours, which may part: we can give a transfer up (its
// status is settled) while UCX still holds its bytes (`request` is not null). Guarded by the engine's mutex.
struct UcxOperation {
  enum class Direction { kSend, kReceive };
  Direction direction = Direction::kSend;
  int peer = 0;
  MessageTag tag;
  size_t bytes = 0;

  void* request = nullptr;  // UCX's; null once UCX has given the bytes back
  bool settled = false;     // `status` is what Wait answers, for good
  absl::Status status;
  ConditionVariable changed;
  ConditionVariable* any_changed = nullptr;  // not owned; for whoever waits for all. Null: nobody

  // "send of 8 bytes to rank 3 (reduce channel 0 sequence 1)"
  std::string Description() const;

  // The first answer counts.
  void Settle(absl::Status answer);
  // UCX is done with the bytes. `received`: the size of the message, for receives.
  void Complete(ucs_status_t ucs, size_t received);
};

}  // namespace medley
