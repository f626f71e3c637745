#pragma once
#include <grpcpp/channel.h>
#include <grpcpp/security/credentials.h>

#include <memory>
#include <string>

#include "absl/time/time.h"
#include "runtime/base/bytes.h"

namespace medley {

// What a daemon of ours takes at most: a plan and the addresses of thousands of workers.
inline constexpr Bytes kMostRequest = MiB(64);

struct ChannelSettings {
  // A host that vanishes resets no connection: after so long without a word it is asked for one, and calls fail if none comes
  // within keepalive_answer. Zero: calls have deadlines of their own.
  absl::Duration keepalive = absl::ZeroDuration(), keepalive_answer = absl::Seconds(3);
  // Between attempts to connect again, growing from the one to the other. An attempt itself has 20 seconds, with TLS's handshake.
  absl::Duration first_reconnect = absl::Seconds(1), longest_reconnect = absl::Seconds(1);
  Bytes most_reply = MiB(4);  // larger ones fail with ResourceExhausted
  // Null: in the clear.
  std::shared_ptr<grpc::ChannelCredentials> credentials;
};

// A channel to a daemon of ours at `address`, which connects when it is first used. It shares no connection, and no pause between
// attempts to connect, with other channels to the same. Never through a proxy of
// the environment: those are for the web, daemons are in the same network.
std::shared_ptr<grpc::Channel> OpenChannel(const std::string& address, const ChannelSettings& settings = {});

}  // namespace medley
