#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <random>
#include <thread>
#include <vector>

#include "comm/conformance/contract_test.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

TEST_CASE("many threads may use a transport at once") {
  CLUSTER_OF(2);
  constexpr int kThreads = 4, kRounds = 200;
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, rank, t] {
        Transport& transport = cluster->rank(rank);
        for (int i = 0; i < kRounds; ++i) {
          const size_t size = i % 50 == 7 ? 100000 : 64;
          const Message out = RandomMessage(size, t * 1000 + i);
          Message in(size);
          const MessageTag tag{MessageTag::Kind::kActivation, static_cast<uint16_t>(t),
                               static_cast<uint32_t>(i)};
          const auto receive = transport.Receive(1 - rank, tag, absl::MakeSpan(in));
          const auto send = transport.Send(1 - rank, tag, out);
          const bool good =
              send.ok() && receive.ok() && (*receive)->Wait(Soon()).ok() && (*send)->Wait(Soon()).ok();
          if (!good || in != out) ++wrong;
        }
      });
    }
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
}

struct Planned {
  int from, to;
  MessageTag tag;
  size_t bytes;
  size_t misalignment;
};

// Few tags, so that many messages share one; sizes from 0 to some MiB, mostly small, most of them odd.
std::vector<Planned> RandomPlan(int ranks, int messages, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<Planned> plan;
  for (int i = 0; i < messages; ++i) {
    Planned message;
    message.from = static_cast<int>(random() % ranks);
    message.to = static_cast<int>((message.from + 1 + random() % (ranks - 1)) % ranks);
    message.tag = {static_cast<MessageTag::Kind>(1 + random() % 6), static_cast<uint16_t>(random() % 2), 5};
    const int logarithm = static_cast<int>(random() % 16) + (i % 40 == 0 ? 6 : 0);
    message.bytes = i % 25 == 0 ? 0 : random() % (size_t{1} << logarithm);
    message.misalignment = random() % 16;
    plan.push_back(message);
  }
  return plan;
}

// One rank's part: posts its sends and its receives, each in the order of the plan, mixed at random; then
// waits.
absl::Status PlayPart(Transport& transport, const std::vector<Planned>& plan, uint64_t seed) {
  std::mt19937_64 random(seed * 100 + transport.rank());
  std::vector<size_t> sends, receives;
  for (size_t i = 0; i < plan.size(); ++i) {
    if (plan[i].from == transport.rank()) sends.push_back(i);
    if (plan[i].to == transport.rank()) receives.push_back(i);
  }
  std::vector<Message> buffers(plan.size());
  std::vector<std::unique_ptr<Transfer>> transfers;
  for (size_t s = 0, r = 0; s < sends.size() || r < receives.size();) {
    const bool send = r == receives.size() || (s < sends.size() && random() % 2 == 0);
    const size_t i = send ? sends[s++] : receives[r++];
    const Planned& message = plan[i];
    buffers[i].resize(message.misalignment + message.bytes);
    const auto bytes = absl::MakeSpan(buffers[i]).subspan(message.misalignment);
    if (send) {
      const Message content = RandomMessage(message.bytes, seed * 10000 + i);
      std::copy(content.begin(), content.end(), bytes.begin());
      ASSIGN_OR_RETURN(transfers.emplace_back(), transport.Send(message.to, message.tag, bytes));
    } else {
      ASSIGN_OR_RETURN(transfers.emplace_back(), transport.Receive(message.from, message.tag, bytes));
    }
  }
  for (const auto& transfer : transfers) RETURN_IF_ERROR(transfer->Wait(Soon()));
  for (const size_t i : receives) {
    const Message content = RandomMessage(plan[i].bytes, seed * 10000 + i);
    if (!std::equal(content.begin(), content.end(), buffers[i].begin() + plan[i].misalignment)) {
      return absl::DataLossError(absl::StrCat("message ", i, " of the plan is another"));
    }
  }
  return absl::OkStatus();
}

TEST_CASE("hundreds of messages at once between random pairs, of any size and alignment, keep their order",
          "[property]") {
  struct Load {
    int ranks, messages;
  };
  const std::vector<Load> loads = {{2, 700}, {3, 400}, {7, 300}, {16, 400}};
  const Load load = loads[GENERATE(0, 1, 2, 3)];
  const uint64_t seed = load.ranks;
  CAPTURE(load.ranks, load.messages, seed);
  CLUSTER_OF(load.ranks);
  const std::vector<Planned> plan = RandomPlan(load.ranks, load.messages, seed);
  const auto statuses =
      cluster->OnEveryRank([&](Transport& transport) { return PlayPart(transport, plan, seed); });
  for (const absl::Status& status : statuses) CHECK_OK(status);
}

}  // namespace
}  // namespace medley
