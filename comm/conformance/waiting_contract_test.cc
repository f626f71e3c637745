#include <catch2/catch.hpp>
#include <random>
#include <thread>
#include <vector>

#include "comm/conformance/contract_test.h"
#include "runtime/base/clock.h"

namespace medley {
namespace {

TEST_CASE("a receive that is late says so by name, and goes on") {
  CLUSTER_OF(2);
  Message got(5);
  const auto receive = Started(cluster->rank(1).Receive(0, kTag, absl::MakeSpan(got)));
  const absl::Time before = Now();
  const absl::Status late = receive->Wait(At(absl::Milliseconds(30)));
  CHECK(absl::IsDeadlineExceeded(late));
  CHECK(Now() - before >= absl::Milliseconds(29));
  CHECK(Now() - before < absl::Seconds(15));
  const std::string text(late.message());
  CHECK_THAT(text, Catch::Contains("5 bytes") && Catch::Contains("rank 0") && Catch::Contains("sequence 9"));
  const Message message = RandomMessage(5, 3);
  const auto send = Started(cluster->rank(0).Send(1, kTag, message));
  CHECK_OK(receive->Wait(Soon()));
  CHECK(got == message);
}

TEST_CASE("the message of a cancelled receive goes to the next receive") {
  CLUSTER_OF(2);
  Message got(5);
  {
    Message freed(5);
    const auto cancelled = Started(cluster->rank(1).Receive(0, kTag, absl::MakeSpan(freed)));
  }
  const Message message = RandomMessage(5, 3);
  const auto send = Started(cluster->rank(0).Send(1, kTag, message));
  const auto receive = Started(cluster->rank(1).Receive(0, kTag, absl::MakeSpan(got)));
  CHECK_OK(receive->Wait(Soon()));
  CHECK(got == message);
}

TEST_CASE("a large send that nobody receives can be destroyed, and its bytes freed") {
  CLUSTER_OF(2);
  const absl::Time before = Now();
  {
    const Message message = RandomMessage(4 << 20, 3);
    const auto send = Started(cluster->rank(0).Send(1, kTag, message));
  }
  CHECK(Now() - before < absl::Seconds(15));
}

TEST_CASE("abort fails what is under way and what comes after, and nobody else's") {
  CLUSTER_OF(3);
  Message got(5), other(5);
  const auto receive = Started(cluster->rank(1).Receive(0, kTag, absl::MakeSpan(got)));
  const auto others = Started(cluster->rank(2).Receive(0, kTag, absl::MakeSpan(other)));
  std::thread aborting([&] { cluster->rank(1).Abort("plan 8 took over"); });
  const absl::Status status = receive->Wait(Soon());
  aborting.join();
  CHECK(status == absl::CancelledError("plan 8 took over"));
  cluster->rank(1).Abort("again");
  const Message message = RandomMessage(5, 4);
  CHECK(Started(cluster->rank(1).Send(0, kTag, message))->Wait(Soon()) ==
        absl::CancelledError("plan 8 took over"));
  CHECK(Started(cluster->rank(1).Receive(2, kTag, absl::MakeSpan(got)))->Wait(Soon()) ==
        absl::CancelledError("plan 8 took over"));
  const auto send = Started(cluster->rank(0).Send(2, kTag, message));
  CHECK_OK(others->Wait(Soon()));
  CHECK(other == message);
}

TEST_CASE("Done is false before the message and true after, by asking alone, and Wait then answers at once") {
  CLUSTER_OF(2);
  Message got(300001);
  const auto receive = Started(cluster->rank(1).Receive(0, kTag, absl::MakeSpan(got)));
  CHECK(!receive->Done());
  const Message message = RandomMessage(got.size(), 3);
  const auto send = Started(cluster->rank(0).Send(1, kTag, message));
  const absl::Time limit = Soon();
  while (!(receive->Done() && send->Done()) && Now() < limit) std::this_thread::yield();
  CHECK_OK(receive->Wait(absl::InfinitePast()));
  CHECK_OK(send->Wait(absl::InfinitePast()));
  CHECK(got == message);
}

TEST_CASE("cancelled receives drop out of the order, whichever they are", "[property]") {
  const uint64_t seed = GENERATE(range(uint64_t{0}, uint64_t{3}));
  CAPTURE(seed);
  CLUSTER_OF(2);
  std::mt19937_64 random(seed);
  constexpr int kReceives = 30;
  std::vector<Message> got(kReceives, Message(100));
  std::vector<std::unique_ptr<Transfer>> receives(kReceives), sends;
  for (int i = 0; i < kReceives; ++i) {
    receives[i] = Started(cluster->rank(1).Receive(0, kTag, absl::MakeSpan(got[i])));
  }
  for (auto& receive : receives) {
    if (random() % 2 == 0) receive.reset();
  }
  std::vector<Message> messages;
  for (int i = 0; i < kReceives; ++i) messages.push_back(RandomMessage(100, seed * 1000 + i));
  size_t sent = 0;
  for (int i = 0; i < kReceives; ++i) {
    if (receives[i] == nullptr) continue;
    sends.push_back(Started(cluster->rank(0).Send(1, kTag, messages[sent++])));
  }
  sent = 0;
  for (int i = 0; i < kReceives; ++i) {
    if (receives[i] == nullptr) continue;
    CAPTURE(i);
    CHECK_OK(receives[i]->Wait(Soon()));
    CHECK(got[i] == messages[sent++]);
  }
  for (const auto& send : sends) CHECK_OK(send->Wait(Soon()));
}

}  // namespace
}  // namespace medley
