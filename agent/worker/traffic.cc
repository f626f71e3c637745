#include "agent/worker/traffic.h"

#include "comm/transport/message_tag.h"

namespace medley {

void AddTraffic(const Transport& transport, v1::MeasuredStep& measured) {
  for (const PeerTraffic& traffic : transport.Traffic()) {
    v1::PeerTraffic& added = *measured.add_traffic();
    added.set_peer(static_cast<uint32_t>(traffic.peer));
    added.set_operation(NameOf(traffic.kind));
    added.set_bytes_sent(traffic.bytes_sent);
    added.set_bytes_received(traffic.bytes_received);
    added.set_messages_sent(traffic.messages_sent);
    added.set_messages_received(traffic.messages_received);
    added.set_wait_seconds(traffic.wait_seconds);
    added.set_strategy(traffic.path);
  }
  const uint64_t dropped = transport.DroppedMessages();
  if (dropped == 0) return;
  if (measured.traffic_size() == 0) measured.add_traffic()->set_peer(static_cast<uint32_t>(transport.rank()));
  measured.mutable_traffic(0)->set_dropped_messages(dropped);
}

}  // namespace medley
