#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "comm/transport/transport.h"

namespace medley {

enum class ProbeRole { kLeader, kFollower };

// The measurements that a probe is made of, between this rank and `peer`. The leader tells the follower
// before each what comes, so the two need to agree on no counts and no clocks.
//
// Uses MessageTag::Kind::kProbe and, for exchanges, the last channel of kReduce; nothing else should run
// between the two ranks. Other pairs, of this transport or others, do not disturb. Blocks; for one thread.
// Errors: those of Transport.
class LinkProber {
 public:
  // `transport` must be connected and outlive this.
  LinkProber(Transport& transport, int peer, absl::Time deadline);

  // Both ends, first. FailedPrecondition: both have one role.
  absl::Status Greet(ProbeRole role);

  // Leader: seconds of one message of `bytes` one way, both ends being ready for it and nothing else under
  // way; each is half of a time there and back. The first time of a size pays for connections and page
  // faults, too.
  absl::StatusOr<std::vector<double>> TransferSeconds(size_t bytes, int repetitions);
  // Leader: seconds of one round in which each end sends `bytes` (a multiple of 4) and adds what comes to a
  // vector of float: each is half of a ring all-reduce of twice the bytes over the two.
  absl::StatusOr<std::vector<double>> ExchangeSeconds(size_t bytes, int repetitions);
  // Leader: releases the follower.
  absl::Status Stop();

  // Follower: does as the leader says until it stops. InvalidArgument: the leader wants what cannot be.
  absl::Status Follow();

  // Both ends, the leader with its `message`, of a length that both know.
  absl::Status Send(absl::Span<const std::byte> message);
  absl::Status Receive(absl::Span<std::byte> message);

 private:
  enum class Kind : uint64_t { kTransfer = 1, kExchange = 2, kStop = 3 };
  struct Order {
    Kind kind = Kind::kStop;
    uint64_t bytes = 0;
    uint64_t times = 0;
  };
  absl::StatusOr<std::vector<double>> Lead(const Order& order);
  absl::Status Obey(const Order& order);
  absl::Status EchoOnce(ProbeRole role, size_t bytes);
  absl::Status ExchangeOnce(size_t bytes);

  Transport& transport_;
  const int peer_;
  const absl::Time deadline_;
  std::vector<std::byte> outgoing_, incoming_;
  std::vector<float> vector_;
};

// Both ends: gives `text` to the peer and returns the peer's. At most kMostProbeText bytes; what is longer is
// cut.
inline constexpr size_t kMostProbeText = 500;
absl::StatusOr<std::string> ExchangeText(Transport& transport, int peer, const std::string& text,
                                         absl::Time deadline);

}  // namespace medley
