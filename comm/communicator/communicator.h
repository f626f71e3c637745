#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "comm/communicator/departures.h"
#include "comm/protected/protected_transport.h"
#include "comm/session/session.h"
#include "comm/ucx/ucx_transport.h"
#include "runtime/base/mutex.h"

namespace medley {

// What a worker talks to the other workers of its attempt with: a Session, by which they recognise and watch
// each other, and a UcxTransport for the data. UCX connects only to addresses that a proven member has given,
// and a peer that is found gone fails the transfers with it, over whatever link.
//
// In two steps: Create, tell address() to all, Connect with those of all. Thread-safe; three threads of its
// own, asleep when nothing happens.
class Communicator {
 public:
  struct Options {
    uint64_t attempt = 0;
    int rank = 0;
    int size = 1;  // [1, 65536]
    // The ranks that this one talks to, each of which names this one; nothing: all others.
    std::optional<std::vector<int>> peers = {};
    // The attempt's secret, at least 16 bytes; it may be empty where there are no peers. It is never logged.
    std::string secret;
    UcxTransport::Links links = UcxTransport::Links::kAutomatic;
    // Of messages with peers that share no memory with this one, under keys of the secret; the same on all ranks.
    MessageProtection message_protection = MessageProtection::kNone;
    // As UcxTransport's; of an RDMA device, the session takes the interfaces beside it.
    std::string network_devices;
    // Named likewise: what the session may take where those have no address; empty: any interface.
    std::string session_devices = {};
    absl::Duration heartbeat = absl::Seconds(1);
    absl::Duration silence_limit = absl::Seconds(4);  // without a word for so long, a peer is gone
    // A peer that has said goodbye counts as gone only after this: what it sent may still be on its way.
    absl::Duration goodbye_grace = absl::Seconds(1);
  };
  // InvalidArgument: an option is out of range, network_devices names one that is not here, or session_devices
  // is needed and none of it has an address. Others: as the system and UCX say.
  static absl::StatusOr<std::unique_ptr<Communicator>> Create(const Options& options);
  // Disconnects at once; unless Close was called, peers take this rank for dead. Transfers must be
  // destroyed before.
  ~Communicator();

  // For the peers' Connect; at most 4 KiB of binary. Secret-free. Empty where there are no peers.
  const std::string& address() const { return session_->address(); }

  // Connects to all peers; addresses of other ranks are ignored. To be called once; after an error, destroy it,
  // which tells the others.
  //   InvalidArgument     not `size` addresses, or one is malformed, or of another rank or attempt; names the
  //                       rank.
  //   PermissionDenied    a peer and this rank could not prove to each other that they belong to the attempt;
  //                       names it.
  //   FailedPrecondition  links are shared memory, and a rank is on another host or has TCP alone; or it was called before.
  //   Unavailable         a rank cannot be reached or went; names it.
  //   DeadlineExceeded    ranks have not connected; names them.
  absl::Status Connect(const std::vector<std::string>& addresses_by_rank, absl::Time deadline);

  // For the data. Fails with Unavailable what needs a peer that is gone.
  Transport& transport() {
    return protected_ == nullptr ? static_cast<Transport&>(*transport_) : *protected_;
  }
  // Of messages with `peer`, once it is connected.
  MessageProtection ProtectionWith(int peer) const {
    return protected_ == nullptr ? MessageProtection::kNone : protected_->ProtectionWith(peer);
  }

  // To be set before Connect, lest some are missed: told once of each peer that is gone, after its transfers
  // have failed. `left`: it said goodbye. From a thread of the communicator's; may block, which delays the
  // news of other peers, but not destroy it.
  void OnGone(Session::GoneCallback callback);
  // Session's short questions between workers.
  void OnQuestion(std::function<std::string(int rank, const std::string& question)> callback) {
    session_->OnQuestion(std::move(callback));
  }
  absl::StatusOr<std::string> Ask(int rank, const std::string& question, absl::Time deadline) {
    return session_->Ask(rank, question, deadline);
  }
  std::vector<absl::StatusOr<std::string>> AskAll(const std::vector<int>& ranks, const std::string& question,
                                                  absl::Time deadline) {
    return session_->AskAll(ranks, question, deadline);
  }

  // Waits until what was sent is out, closes the transport, and says goodbye to all. To be called at most
  // once. Never blocks beyond `deadline`; the status is UcxTransport::Close's.
  absl::Status Close(absl::Time deadline);

  // Instead of Close, after a failure: tells the others why this rank gives up, which is what they then say
  // of it, rather than that its connections broke. Waits until they have heard it; never blocks beyond
  // `deadline`. To be destroyed then.
  void GiveUp(const std::string& why, absl::Time deadline) { session_->Close(deadline, why); }

  // Connections that were turned away.
  uint64_t refused() const { return session_->refused(); }

 private:
  explicit Communicator(const Options& options) : options_(options) {}
  void Tell(const Departures::Departure& departure);

  const Options options_;
  Mutex mutex_;
  Session::GoneCallback on_gone_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<UcxTransport> transport_;
  std::unique_ptr<ProtectedTransport> protected_;  // around it; null: messages go as they are
  std::unique_ptr<Departures> departures_;         // after the transport, which its thread tells
  std::unique_ptr<Session> session_;               // last: its thread feeds the departures
};

}  // namespace medley
