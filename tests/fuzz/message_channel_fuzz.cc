// The stream of messages between agent and worker.
#include <sys/socket.h>
#include <unistd.h>

#include "agent/channel/message_channel.h"
#include "proto/medley/v1/agent.pb.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/quiet_protobuf.h"

namespace medley {
namespace {

std::string Framed(const std::string& bytes) {
  std::string framed;
  for (int i = 0; i < 4; ++i) framed += static_cast<char>(bytes.size() >> (8 * i));
  return framed + bytes;
}

}  // namespace

std::vector<std::string> FuzzSeeds() {
  v1::WorkerEvent log, link;
  log.set_log("a line");
  link.mutable_link()->set_a("a/cpu0");
  link.mutable_link()->set_bytes_per_second(1e9);
  const std::string both = Framed(log.SerializeAsString()) + Framed(link.SerializeAsString());
  return {Framed(log.SerializeAsString()), both, Framed("") + both};
}

}  // namespace medley

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace medley;
  size = size < 32768 ? size : 32768;  // what a socket takes without a reader
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return 0;
  const bool written = write(ends[0], data, size) == static_cast<ssize_t>(size);
  close(ends[0]);
  MessageChannel channel(ends[1]);
  if (!written) return 0;
  while (true) {
    v1::WorkerEvent event;
    const absl::Status received = channel.Receive(event, absl::InfiniteFuture());
    if (!received.ok()) {
      DemandRefusal(received);
      return 0;
    }
    Accepted();
    v1::WorkerEvent again;
    Demand(again.ParseFromString(event.SerializeAsString()), "a received message can be sent on");
  }
}
