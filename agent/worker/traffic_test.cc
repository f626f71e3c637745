#include "agent/worker/traffic.h"

#include <catch2/catch.hpp>

namespace medley {
namespace {

// A transport that has had traffic and can do nothing more.
class PastTransport final : public Transport {
 public:
  explicit PastTransport(std::vector<PeerTraffic> traffic, uint64_t dropped)
      : traffic_(std::move(traffic)), dropped_(dropped) {}
  int rank() const override { return 2; }
  int size() const override { return 4; }
  absl::StatusOr<std::unique_ptr<Transfer>> Send(int, MessageTag, absl::Span<const std::byte>,
                                                 MemoryType) override {
    return absl::CancelledError("over");
  }
  absl::StatusOr<std::unique_ptr<Transfer>> Receive(int, MessageTag, absl::Span<std::byte>,
                                                    MemoryType) override {
    return absl::CancelledError("over");
  }
  void Abort(const std::string&) override {}
  void MarkGone(int, const std::string&) override {}
  std::vector<PeerTraffic> Traffic() const override { return traffic_; }
  uint64_t DroppedMessages() const override { return dropped_; }

 private:
  const std::vector<PeerTraffic> traffic_;
  const uint64_t dropped_;
};

TEST_CASE("every figure of every peer and kind is told, and dropped messages once") {
  const PastTransport transport(
      {{.peer = 1,
        .kind = MessageTag::Kind::kReduce,
        .bytes_sent = 10,
        .bytes_received = 20,
        .messages_sent = 1,
        .messages_received = 2,
        .wait_seconds = 0.5,
        .path = "tcp"},
       {.peer = 3, .kind = MessageTag::Kind::kActivation, .bytes_sent = 7, .path = "shared memory"}},
      5);
  v1::MeasuredStep measured;
  AddTraffic(transport, measured);
  REQUIRE(measured.traffic_size() == 2);
  const v1::PeerTraffic& first = measured.traffic(0);
  CHECK(first.peer() == 1);
  CHECK(first.operation() == "reduce");
  CHECK(first.bytes_sent() == 10);
  CHECK(first.bytes_received() == 20);
  CHECK(first.messages_sent() == 1);
  CHECK(first.messages_received() == 2);
  CHECK(first.wait_seconds() == 0.5);
  CHECK(first.strategy() == "tcp");
  CHECK(first.dropped_messages() == 5);
  CHECK(measured.traffic(1).operation() == "activation");
  CHECK(measured.traffic(1).strategy() == "shared memory");
  CHECK(measured.traffic(1).dropped_messages() == 0);
}

TEST_CASE("where nothing was exchanged there is nothing to tell but what was dropped") {
  v1::MeasuredStep measured;
  AddTraffic(PastTransport({}, 0), measured);
  CHECK(measured.traffic_size() == 0);
  AddTraffic(PastTransport({}, 3), measured);
  REQUIRE(measured.traffic_size() == 1);
  CHECK(measured.traffic(0).peer() == 2);
  CHECK(measured.traffic(0).operation() == "");
  CHECK(measured.traffic(0).dropped_messages() == 3);
}

}  // namespace
}  // namespace medley
