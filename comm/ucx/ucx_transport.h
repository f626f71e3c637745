#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "comm/transport/transport.h"

namespace medley {

class UcxState;

// Transport over UCX: shared memory to ranks on the same host, TCP to the others.
//
// In two steps, since everybody must know everybody's address: Create, tell address() to all, Connect with
// those of all. Send and Receive before Connect answer FailedPrecondition.
//
// Peers that die: over TCP the connection breaks, and transfers with that rank fail with Unavailable. Over
// shared memory UCX cannot tell; there it is the deadline, or whoever calls Abort, that ends the waiting.
//
// A rank that closes or is destroyed counts as gone for its TCP peers, which still get what it sent before.
//
// Thread-safe; one thread of its own, asleep when nothing moves.
class UcxTransport final : public Transport {
 public:
  enum class Links {
    kAutomatic,     // shared memory where two ranks are on one host, TCP else
    kTcp,           // TCP always
    kSharedMemory,  // all ranks must be on one host
  };
  struct Options {
    uint64_t epoch = 0;  // the same on all ranks; addresses and messages of others are refused
    int rank = 0;
    int size = 1;  // [1, 4096]
    Links links = Links::kAutomatic;  // the same on all ranks
    // For TCP: names as in "eth0,ib0"; empty: all.
    std::string network_devices;
    // How long a destroyed Transfer waits for a peer that is at work on its bytes, before the transport gives
    // up.
    absl::Duration cancel_grace = absl::Milliseconds(200);
  };

  // InvalidArgument: rank or size out of range, or network_devices names one that is not here. Others: as UCX
  // says.
  static absl::StatusOr<std::unique_ptr<UcxTransport>> Create(const Options& options);
  // Closes by force; waits for no peer. Every Transfer must be destroyed before.
  ~UcxTransport() override;

  // For the peers' Connect; at most 64 KiB of binary.
  const std::string& address() const { return address_; }

  // Connects to all ranks, whose addresses are `addresses_by_rank`; this rank's own is ignored. The peers
  // need only have been created. After an error, destroy the transport.
  //   InvalidArgument     not `size` addresses, or one is malformed, or of another rank or epoch; names the
  //                       rank. Nothing has happened then, and Connect may be called again.
  //   FailedPrecondition  kSharedMemory, and a rank is on another host; or it is connected already.
  //   Cancelled           it was aborted or closed.
  //   Unavailable         a rank cannot be reached; names it.
  //   DeadlineExceeded    a rank has not answered; names it.
  absl::Status Connect(const std::vector<std::string>& addresses_by_rank, absl::Time deadline);

  int rank() const override { return options_.rank; }
  int size() const override { return options_.size; }
  absl::StatusOr<std::unique_ptr<Transfer>> Send(int peer, MessageTag tag,
                                                 absl::Span<const std::byte> bytes) override;
  absl::StatusOr<std::unique_ptr<Transfer>> Receive(int peer, MessageTag tag,
                                                    absl::Span<std::byte> bytes) override;
  void Abort(const std::string& reason) override;

  // Waits until what was sent is out, then disconnects. Receives still under way fail with Cancelled, as does
  // all that comes after. To be called at most once.
  //   DeadlineExceeded  a peer did not take all; names it. The transport is closed all the same.
  //   Cancelled         it was aborted before.
  absl::Status Close(absl::Time deadline);

 private:
  explicit UcxTransport(const Options& options);

  const Options options_;
  std::string address_;
  std::unique_ptr<UcxState> state_;
};

}  // namespace medley
