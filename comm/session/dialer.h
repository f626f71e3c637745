#pragma once
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "comm/session/endpoint.h"

namespace medley {

// Which of a peer's endpoints to try when, and when to give up. Pure: it is told what happened and the time,
// and touches no socket. One attempt at a time; round and round, since a peer may be slow or a link may come
// up late.
class Dialer {
 public:
  // `endpoints`, best first. Without any, verdict() is not OK at once.
  Dialer(int rank, std::vector<Endpoint> endpoints);

  // Begins an attempt at the endpoint that it returns, if one is due. `now` grows.
  std::optional<Endpoint> Next(absl::Duration now);
  // The attempt has failed. By the code of `why`:
  //   PermissionDenied           the peer refused; settles it unless another endpoint of the round connects.
  //   DeadlineExceeded, Aborted  may be better next time.
  //   all others                 it is not there; settles it if that lasts for kPatience at every endpoint.
  void Failed(const absl::Status& why, absl::Duration now);

  // Not OK: there is no point in going on. PermissionDenied; Unavailable, with the reasons of the last round.
  const absl::Status& verdict() const { return verdict_; }
  // "connection timed out at 10.0.0.1:4123"; empty before the first failure.
  const std::string& last_failure() const { return last_failure_; }

  static constexpr absl::Duration kPatience = absl::Seconds(3);
  static constexpr absl::Duration kPause = absl::Milliseconds(100);  // between rounds

 private:
  void EndRound(absl::Duration now);

  int rank_;
  std::vector<Endpoint> endpoints_;
  size_t next_ = 0;
  bool is_trying_ = false;
  absl::Duration due_at_ = absl::ZeroDuration();
  std::vector<std::string> reasons_;              // of this round
  absl::Status denied_;                           // of this round
  bool may_improve_ = false;                      // of this round
  std::optional<absl::Duration> hopeless_since_;  // of the first of the rounds without hope
  std::string last_failure_;
  absl::Status verdict_;
};

}  // namespace medley
