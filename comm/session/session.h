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

namespace medley {

// The members of one attempt, who know each other: one authenticated TCP connection between every two of
// them that are peers, which carries no training data. It proves that a peer belongs to the attempt before anything is
// exchanged with it, notices within seconds that a peer is gone (killed, cut off, host lost), and carries
// short questions between workers.
//
// In two steps like UcxTransport: Listen, tell address() to all, Connect with those of all. The connection of
// two ranks is opened by the higher one. Both challenge each other (HMAC-SHA256 of fresh nonces, attempt,
// ranks and both payloads and addresses under the secret); who fails is disconnected, counted, and told only
// that it was refused.
//
// Thread-safe; one thread of its own, asleep but for a heartbeat a second.
class Session {
 public:
  struct Options {
    uint64_t attempt = 0;
    int rank = 0;
    int size = 1;  // [1, 65536]
    // The attempt's secret, at least 16 bytes; it may be empty where there are no peers. It is never logged.
    std::string secret;
    // The ranks that this one connects to, each of which names this one; nothing: all others.
    std::optional<std::vector<int>> peers = {};
    std::string payload;  // handed to every member that has proved itself; at most 64 KiB
    // Names as in "eth0,ib0": listens on their addresses alone. Empty: all, loopback too.
    std::string network_devices;
    absl::Duration heartbeat = absl::Seconds(1);
    absl::Duration silence_limit = absl::Seconds(4);  // more than heartbeat: who says nothing so long is gone
    absl::Duration handshake_limit = absl::Seconds(5);  // for a connection to prove itself
  };
  // InvalidArgument: an option is out of range, or network_devices names one that is not here. Unavailable:
  // the system gives no socket.
  static absl::StatusOr<std::unique_ptr<Session>> Listen(const Options& options);
  // Disconnects at once, without a goodbye unless Close has said it. Calls no callback any more.
  virtual ~Session() = default;

  // For the peers' Connect; at most 4 KiB of binary. Secret-free. Empty where there are no peers: then
  // nothing listens.
  virtual const std::string& address() const = 0;

  // Connects to all peers; addresses of other ranks are ignored. To be called once; after an error, destroy the
  // session, which tells the others.
  //   InvalidArgument     not `size` addresses, or one is malformed, or of another rank or attempt; names the
  //                       rank.
  //   PermissionDenied    a peer and this rank could not prove to each other that they belong to the attempt;
  //                       names it.
  //   Unavailable         a rank cannot be reached or went; names it.
  //   DeadlineExceeded    ranks have not connected; names them.
  //   FailedPrecondition  it was called before, or the session is closed.
  virtual absl::Status Connect(const std::vector<std::string>& addresses_by_rank, absl::Time deadline) = 0;

  // What `rank`, a peer, gave as its payload (this rank's own for itself; of others nothing). Once Connect has succeeded.
  virtual const std::string& payload(int rank) const = 0;

  // To be set before Connect. Called from the session's thread; must not block, nor destroy the session.
  // A peer is gone: once for each, from the moment that Connect succeeds (before, Connect says who went).
  // `left`: it said goodbye, so it has finished and not died. `why` for people: "connection reset",
  // "silent for 4.2 s", "closed".
  using GoneCallback = std::function<void(int rank, bool left, const std::string& why)>;
  virtual void OnGone(GoneCallback callback) = 0;
  // Answers a peer's question, which is at most 4 KiB; of the answer, as much is sent.
  virtual void OnQuestion(std::function<std::string(int rank, const std::string& question)> callback) = 0;

  // Asks all `ranks` at once, and blocks until all have answered, or until the deadline; the answers in their order.
  // Not from a callback.
  //   Unavailable         the peer is gone, or goes; or this session is closed.
  //   DeadlineExceeded    no answer yet.
  //   Unimplemented       the peer has set no OnQuestion.
  //   InvalidArgument     no such peer, or it is this rank, or the question is longer than 4 KiB.
  //   FailedPrecondition  not connected.
  virtual std::vector<absl::StatusOr<std::string>> AskAll(const std::vector<int>& ranks,
                                                          const std::string& question,
                                                          absl::Time deadline) = 0;
  absl::StatusOr<std::string> Ask(int rank, const std::string& question, absl::Time deadline) {
    return AskAll({rank}, question, deadline).front();
  }

  // Says goodbye to all, so that they know this rank has finished and has not died; waits until they have
  // heard it, then disconnects. Never blocks beyond `deadline`. Calls no OnGone any more. Not from a
  // callback. With a `failure` (its first kMaximumReasonBytes) it gives up instead: to the others it has not
  // left but is gone, "it gave up: " and why, so that they know whose fault it was.
  virtual void Close(absl::Time deadline, const std::string& failure) = 0;
  void Close(absl::Time deadline) { Close(deadline, ""); }

  // Connections that this rank turned away: of another attempt or rank, malformed, without the secret, or too
  // slow.
  virtual uint64_t refused() const = 0;
};

inline constexpr size_t kMaximumPayloadBytes = 64 << 10;
inline constexpr size_t kMaximumQuestionBytes = 4 << 10;
inline constexpr size_t kMaximumReasonBytes = 1 << 10;
inline constexpr size_t kMinimumSecretBytes = 16;

}  // namespace medley
