#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "comm/conformance/contract_test.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

using Kind = MessageTag::Kind;

TEST_CASE("traffic counts every byte and message by peer and kind, and nothing else") {
  CLUSTER_OF(3);
  CHECK(cluster->rank(0).Traffic().empty());
  struct Part {
    int from, to;
    Kind kind;
    int messages;
    size_t bytes;
  };
  const std::vector<Part> parts = {{0, 1, Kind::kActivation, 3, 1001}, {1, 0, Kind::kGradient, 2, 300001},
                                   {0, 2, Kind::kActivation, 1, 0},    {2, 0, Kind::kScalars, 5, 8},
                                   {0, 1, Kind::kReshard, 1, 70000},   {1, 0, Kind::kActivation, 4, 10}};
  const auto statuses = cluster->OnEveryRank([&](Transport& transport) -> absl::Status {
    std::vector<std::unique_ptr<Transfer>> transfers;
    std::vector<Message> buffers;
    buffers.reserve(100);
    for (const Part& part : parts) {
      for (int i = 0; i < part.messages; ++i) {
        const MessageTag tag{part.kind, 0, static_cast<uint32_t>(i)};
        buffers.emplace_back(part.bytes);
        if (part.from == transport.rank()) {
          ASSIGN_OR_RETURN(transfers.emplace_back(), transport.Send(part.to, tag, buffers.back()));
        } else if (part.to == transport.rank()) {
          ASSIGN_OR_RETURN(transfers.emplace_back(),
                           transport.Receive(part.from, tag, absl::MakeSpan(buffers.back())));
        }
      }
    }
    for (const auto& transfer : transfers) RETURN_IF_ERROR(transfer->Wait(Soon()));
    return absl::OkStatus();
  });
  for (const absl::Status& status : statuses) CHECK_OK(status);
  using Counts = std::vector<uint64_t>;
  std::map<std::pair<int, Kind>, Counts> expected, counted;
  for (const Part& part : parts) {
    if (part.from != 0 && part.to != 0) continue;
    Counts& counts = expected[{part.from + part.to, part.kind}];
    counts.resize(4);
    counts[part.from == 0 ? 0 : 1] += part.messages * part.bytes;
    counts[part.from == 0 ? 2 : 3] += part.messages;
  }
  for (const PeerTraffic& traffic : cluster->rank(0).Traffic()) {
    CAPTURE(traffic.peer, static_cast<int>(traffic.kind));
    CHECK(counted.count({traffic.peer, traffic.kind}) == 0);
    counted[{traffic.peer, traffic.kind}] = {traffic.bytes_sent, traffic.bytes_received,
                                             traffic.messages_sent, traffic.messages_received};
    CHECK_FALSE(traffic.path.empty());
    CHECK(traffic.wait_seconds >= 0);
  }
  CHECK(counted == expected);
}

TEST_CASE("traffic knows how long threads waited") {
  CLUSTER_OF(2);
  Message got(5);
  const Message message = RandomMessage(5, 1);
  const auto receive = Started(cluster->rank(1).Receive(0, kTag, absl::MakeSpan(got)));
  // Several times: a thread that gets no core after its deadline was set waits for less.
  for (int i = 0; i < 10; ++i) CHECK(absl::IsDeadlineExceeded(receive->Wait(At(absl::Milliseconds(30)))));
  const auto send = Started(cluster->rank(0).Send(1, kTag, message));
  CHECK_OK(receive->Wait(Soon()));
  const std::vector<PeerTraffic> traffic = cluster->rank(1).Traffic();
  REQUIRE(traffic.size() == 1);
  CHECK(traffic[0].wait_seconds >= 0.029);
  CHECK(traffic[0].wait_seconds < 60);
}

TEST_CASE("registered memory carries transfers at any place in it, and is plain memory after") {
  CLUSTER_OF(2);
  Message out = RandomMessage((4 << 20) + 77, 1), in(out.size());
  const auto exchange = [&](uint32_t round) {
    std::vector<std::unique_ptr<Transfer>> transfers;
    std::fill(in.begin(), in.end(), std::byte{});
    size_t at = 0;
    for (const size_t bytes : {size_t{1}, size_t{4095}, size_t{70001}, size_t{0}, out.size() - 74097}) {
      const MessageTag tag{Kind::kActivation, 0, round};
      transfers.push_back(Started(cluster->rank(1).Receive(0, tag, absl::MakeSpan(in).subspan(at, bytes))));
      transfers.push_back(Started(cluster->rank(0).Send(1, tag, absl::MakeSpan(out).subspan(at, bytes))));
      at += bytes;
    }
    for (const auto& transfer : transfers) CHECK_OK(transfer->Wait(Soon()));
    CHECK(in == out);
  };
  {
    auto source = cluster->rank(0).Register(absl::MakeSpan(out));
    auto target = cluster->rank(1).Register(absl::MakeSpan(in));
    for (const auto* registration : {&source, &target}) {
      CAPTURE(registration->status().ToString());
      CHECK((registration->ok() || absl::IsResourceExhausted(registration->status())));
    }
    exchange(0);
    exchange(1);
  }
  exchange(2);
  CHECK_OK(cluster->rank(0).Register(absl::Span<std::byte>()).status());
}

TEST_CASE("memory of a type that is not reached is refused by name, and nothing has happened") {
  CLUSTER_OF(2);
  Message bytes(64);
  CHECK(cluster->rank(0).Reaches(MemoryType::kHost));
  for (const auto& [memory, name] :
       {std::pair{MemoryType::kCuda, "cuda"}, std::pair{MemoryType::kRocm, "rocm"}}) {
    if (cluster->rank(0).Reaches(memory)) continue;
    for (const absl::Status& status :
         {cluster->rank(0).Send(1, kTag, bytes, memory).status(),
          cluster->rank(0).Receive(1, kTag, absl::MakeSpan(bytes), memory).status(),
          cluster->rank(0).Register(absl::MakeSpan(bytes), memory).status()}) {
      CAPTURE(status.ToString());
      CHECK(absl::IsInvalidArgument(status));
      CHECK_THAT(std::string(status.message()), Catch::Contains(name, Catch::CaseSensitive::No));
    }
  }
  CHECK(cluster->rank(0).Traffic().empty());
}

TEST_CASE("messages of strangers are none") {
  CLUSTER_OF(2);
  CHECK(cluster->rank(0).DroppedMessages() == 0);
}

}  // namespace
}  // namespace medley
