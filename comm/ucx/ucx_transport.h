#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "comm/transport/peer_set.h"
#include "comm/transport/transport.h"
#include "comm/ucx/ucx_links.h"

namespace medley {

class UcxState;
struct UcxOperation;

// Transport over UCX: shared memory to ranks on the same host, RDMA or TCP to the others.
//
// In two steps, since everybody must know everybody's address: Create, tell address() to all, Connect with
// those of all. Send and Receive before Connect answer FailedPrecondition.
//
// Peers that die: over a network the connection breaks, and transfers with that rank fail with Unavailable.
// Over shared memory UCX cannot tell; there it is MarkGone, the deadline, or Abort that ends the waiting.
//
// A rank that closes, is destroyed, or has marked this one as gone counts as gone for its network peers,
// which still get what it sent before.
//
// Messages that do not carry this rank's token of the attempt (AttemptToken) are dropped within about a
// second.
//
// Thread-safe; one thread of its own, asleep when nothing moves.
class UcxTransport final : public Transport {
 public:
  using Links = UcxLinks;
  struct Options {
    uint64_t attempt = 0;  // the same on all ranks; addresses and messages of others are refused
    int rank = 0;
    int size = 1;  // [1, 65536]
    // A rank that has kTcp is reached over TCP, whatever its peers have.
    Links links = Links::kAutomatic;
    // The ranks that this one exchanges messages with, each of which names this one; nothing: all others.
    std::optional<std::vector<int>> peers = {};
    // Network interfaces and ports of RDMA devices, as in "eth0,mlx5_0:1"; empty: all.
    std::string network_devices;
    // The attempt's secret, the same on all ranks; it is never logged. Messages of those who do not know it
    // are dropped.
    std::string secret;
    // How long a destroyed Transfer waits for a peer that is at work on its bytes, before the transport gives
    // up.
    absl::Duration cancel_grace = absl::Milliseconds(200);
  };

  // InvalidArgument: rank, size or a peer out of range, or network_devices names one that is not here. Others: as UCX
  // says.
  static absl::StatusOr<std::unique_ptr<UcxTransport>> Create(const Options& options);
  // Closes by force; waits for no peer. Every Transfer must be destroyed before.
  ~UcxTransport() override;

  // For the peers' Connect; at most 64 KiB of binary.
  const std::string& address() const { return address_; }

  // Connects to all peers, whose addresses are among `addresses_by_rank`; this rank's own and those of ranks that are no
  // peers are ignored. The peers need only have been created. After an error, destroy the transport.
  //   InvalidArgument     not `size` addresses, or one is malformed, or of another rank or attempt; names the
  //                       rank. Nothing has happened then, and Connect may be called again.
  //   FailedPrecondition  kSharedMemory, and a rank is on another host or has kTcp; or it is connected already.
  //   Cancelled           it was aborted or closed.
  //   Unavailable         a rank cannot be reached; names it.
  //   DeadlineExceeded    a rank has not answered; names it.
  absl::Status Connect(const std::vector<std::string>& addresses_by_rank, absl::Time deadline);

  int rank() const override { return options_.rank; }
  int size() const override { return options_.size; }
  bool IsPeer(int rank) const override { return IsAmong(is_peer_, rank); }
  absl::StatusOr<std::unique_ptr<Transfer>> Send(int peer, MessageTag tag, absl::Span<const std::byte> bytes,
                                                 MemoryType memory = MemoryType::kHost) override;
  absl::StatusOr<std::unique_ptr<Transfer>> Receive(int peer, MessageTag tag, absl::Span<std::byte> bytes,
                                                    MemoryType memory = MemoryType::kHost) override;
  void Abort(const std::string& reason) override;
  void MarkGone(int peer, const std::string& why) override;
  // MarkGone is about to follow: should UCX find the peer gone before, `why` is the reason all the same.
  // Never blocks for what others do with the transport.
  void Expect(int peer, const std::string& why);
  // What the UCX at hand says it supports: beyond host memory only where it was built with CUDA or ROCm.
  bool Reaches(MemoryType memory) const override;
  bool SharesMemory(int peer) const override;
  absl::StatusOr<std::unique_ptr<Registration>> Register(absl::Span<std::byte> bytes,
                                                         MemoryType memory = MemoryType::kHost) override;
  // A wait shorter than about a microsecond counts as none. `path` is "shared memory", "tcp" or "rdma".
  std::vector<PeerTraffic> Traffic() const override;
  uint64_t DroppedMessages() const override;

  // Waits until what was sent is out, then disconnects. Receives still under way fail with Cancelled, as does
  // all that comes after. To be called at most once.
  //   DeadlineExceeded  a peer did not take all; names it. The transport is closed all the same.
  //   Cancelled         it was aborted before.
  absl::Status Close(absl::Time deadline);

 private:
  UcxTransport(const Options& options, std::vector<bool> is_peer);
  absl::StatusOr<std::unique_ptr<Transfer>> Start(std::unique_ptr<UcxOperation> operation,
                                                  absl::Span<std::byte> bytes);

  const Options options_;
  const std::vector<bool> is_peer_;  // by rank
  std::string address_;
  std::unique_ptr<UcxState> state_;
};

}  // namespace medley
