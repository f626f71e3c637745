#include "comm/transport/exchange_bytes.h"

#include <catch2/catch.hpp>
#include <string>
#include <thread>
#include <vector>

#include "comm/loopback/loopback_fabric.h"
#include "runtime/base/clock.h"
#include "runtime/ir/collective/scalar_tree.h"

namespace medley {
namespace {

constexpr MessageTag kTag{MessageTag::Kind::kProbe, 5, 0};

TEST_CASE("all learn what each tells, by messages with few") {
  const int size = GENERATE(1, 2, 8, 9, 20, 70);
  const int step = GENERATE(1, 3);  // of the ranks every one, or every third
  CAPTURE(size, step);
  LoopbackFabric fabric(size * step);
  std::vector<int> ranks;
  std::vector<std::string> want;
  for (int i = 0; i < size; ++i) {
    ranks.push_back(i * step);
    want.push_back("told by " + std::to_string(1000 + i));
  }
  std::vector<absl::StatusOr<std::vector<std::string>>> told(size, absl::UnknownError("nothing"));
  std::vector<size_t> peers(size);
  std::vector<std::thread> threads;
  for (int i = 0; i < size; ++i) {
    threads.emplace_back([&, i] {
      const std::unique_ptr<Transport> transport = fabric.Join(ranks[i]);
      told[i] = ExchangeBytes(*transport, ranks, kTag, want[i], "telling", Now() + absl::Seconds(60));
      peers[i] = transport->Traffic().size();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int i = 0; i < size; ++i) {
    CAPTURE(i);
    REQUIRE(told[i].status().ToString() == "OK");
    CHECK(*told[i] == want);
    CHECK(peers[i] == ScalarTree(size).PeersOf(i).size());
  }
}

TEST_CASE("who is waited for is named, with what for") {
  LoopbackFabric fabric(2);
  const std::unique_ptr<Transport> transport = fabric.Join(1);
  const std::vector<int> ranks = {0, 1};
  const absl::Status late =
      ExchangeBytes(*transport, ranks, kTag, "own", "telling", Now() + absl::Milliseconds(10)).status();
  CHECK(absl::IsDeadlineExceeded(late));
  CHECK_THAT(std::string(late.message()), Catch::Contains("telling with rank 0"));
  fabric.MarkGone(0);
  CHECK(absl::IsUnavailable(
      ExchangeBytes(*transport, ranks, kTag, "own", "telling", Now() + absl::Seconds(60)).status()));
}

}  // namespace
}  // namespace medley
