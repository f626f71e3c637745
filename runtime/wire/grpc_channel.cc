#include "runtime/wire/grpc_channel.h"

#include <grpcpp/create_channel.h>

namespace medley {
namespace {

constexpr absl::Duration kConnectWithin = absl::Seconds(20);

}  // namespace

std::shared_ptr<grpc::Channel> OpenChannel(const std::string& address, const ChannelSettings& settings) {
  const auto milliseconds = [](absl::Duration duration) {
    return static_cast<int>(absl::ToInt64Milliseconds(duration));
  };
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, milliseconds(settings.first_reconnect));
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, milliseconds(kConnectWithin));
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, milliseconds(settings.longest_reconnect));
  arguments.SetMaxReceiveMessageSize(static_cast<int>(settings.most_reply.value));
  if (settings.keepalive > absl::ZeroDuration()) {
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, milliseconds(settings.keepalive));
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, milliseconds(settings.keepalive_answer));
    arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  }
  return grpc::CreateCustomChannel(
      address, settings.credentials != nullptr ? settings.credentials : grpc::InsecureChannelCredentials(),
      arguments);
}

}  // namespace medley
