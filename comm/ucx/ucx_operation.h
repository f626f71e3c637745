#pragma once
#include <ucp/api/ucp.h>

#include <atomic>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "comm/transport/transport.h"
#include "comm/ucx/ucx_memory.h"
#include "runtime/base/mutex.h"

namespace medley {

// A send or receive from UCX's point of view and from ours, which may part: we can give a transfer up (its
// status is settled) while UCX still holds its bytes. Written under the engine's mutex.
struct UcxOperation {
  enum class Direction : uint8_t { kSend, kReceive };
  Direction direction = Direction::kSend;
  MemoryType memory = MemoryType::kHost;
  int peer = 0;
  MessageTag tag;
  uint64_t wire_tag = 0;
  std::byte* data = nullptr;
  size_t bytes = 0;

  void* owner = nullptr;              // whom the callback tells; not owned
  void* request = nullptr;            // UCX's; null once UCX has given the bytes back
  std::shared_ptr<UcxRegion> region;  // that the bytes lie in, while UCX holds them; or null
  size_t place = 0;                   // in the owner's list, while UCX holds the bytes
  std::atomic<bool> held = false;  // by UCX. Once false again, nobody but the transfer touches this any more
  std::atomic<bool> settled = false;  // `status` is what Wait answers, for good
  absl::Status status;                // may be read by anybody who has seen `settled`
  ConditionVariable changed;          // settled, or not held any more

  bool sends() const { return direction == Direction::kSend; }
  // "send of 8 bytes to rank 3 (reduce channel 0 sequence 1)"
  std::string Description() const;

  // The first answer counts.
  void Settle(absl::Status answer);
  // What Wait shall answer where UCX says `ucs`. `received`: the size of the message, for receives.
  absl::Status Answer(ucs_status_t ucs, size_t received) const;
};

}  // namespace medley
