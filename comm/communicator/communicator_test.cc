#include "comm/communicator/communicator.h"

#include <catch2/catch.hpp>
#include <thread>

#include "runtime/base/clock.h"

namespace medley {
namespace {

using Links = UcxTransport::Links;

absl::Time Soon() { return Now() + absl::Seconds(20); }

Communicator::Options OptionsOf(int rank, int size, Links links) {
  return {.attempt = 5,
          .rank = rank,
          .size = size,
          .secret = "sixteen bytes or more",
          .links = links,
          .network_devices = "lo"};
}

std::unique_ptr<Communicator> Create(const Communicator::Options& options) {
  auto made = Communicator::Create(options);
  INFO(made.status().ToString());
  REQUIRE(made.ok());
  return *std::move(made);
}

std::vector<absl::Status> OnEveryRank(int size, const std::function<absl::Status(int)>& body) {
  std::vector<absl::Status> statuses(size);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) threads.emplace_back([&, rank] { statuses[rank] = body(rank); });
  for (std::thread& thread : threads) thread.join();
  return statuses;
}

std::vector<std::unique_ptr<Communicator>> Connected(int size, Links links) {
  std::vector<std::unique_ptr<Communicator>> ranks;
  std::vector<std::string> addresses;
  for (int rank = 0; rank < size; ++rank) {
    ranks.push_back(Create(OptionsOf(rank, size, links)));
    addresses.push_back(ranks.back()->address());
    CHECK(addresses.back().size() <= 4096);
  }
  for (const absl::Status& status :
       OnEveryRank(size, [&](int rank) { return ranks[rank]->Connect(addresses, Soon()); })) {
    INFO(status.ToString());
    REQUIRE(status.ok());
  }
  return ranks;
}

absl::Status SendNumber(Transport& transport, int peer, int number) {
  const auto* bytes = reinterpret_cast<const std::byte*>(&number);
  auto send = transport.Send(peer, {}, {bytes, sizeof(number)});
  return send.ok() ? (*send)->Wait(Soon()) : send.status();
}

absl::StatusOr<int> ReceiveNumber(Transport& transport, int peer) {
  int number = 0;
  auto receive = transport.Receive(peer, {}, {reinterpret_cast<std::byte*>(&number), sizeof(number)});
  const absl::Status status = receive.ok() ? (*receive)->Wait(Soon()) : receive.status();
  if (!status.ok()) return status;
  return number;
}

TEST_CASE("every two ranks exchange messages, questions and answers") {
  const Links links = GENERATE(Links::kTcp, Links::kSharedMemory, Links::kAutomatic);
  const int size = GENERATE(2, 4);
  CAPTURE(static_cast<int>(links), size);
  auto ranks = Connected(size, links);
  std::atomic<int> right{0};
  const auto statuses = OnEveryRank(size, [&](int rank) {
    for (int peer = 0; peer < size; ++peer) {
      if (peer == rank) continue;
      const absl::Status sent = SendNumber(ranks[rank]->transport(), peer, 100 * rank + peer);
      if (!sent.ok()) return sent;
      const absl::StatusOr<int> got = ReceiveNumber(ranks[rank]->transport(), peer);
      if (!got.ok()) return got.status();
      right += *got == 100 * peer + rank;
    }
    return absl::OkStatus();
  });
  for (const absl::Status& status : statuses) {
    INFO(status.ToString());
    CHECK(status.ok());
  }
  CHECK(right == size * (size - 1));
  ranks[1]->OnQuestion([](int rank, const std::string& question) { return question + std::to_string(rank); });
  CHECK(*ranks[0]->Ask(1, "you are asked by ", Soon()) == "you are asked by 0");
  CHECK(ranks[0]->refused() == 0);
  const auto closed = OnEveryRank(size, [&](int rank) { return ranks[rank]->Close(Soon()); });
  for (const absl::Status& status : closed) {
    INFO(status.ToString());
    CHECK(status.ok());
  }
}

TEST_CASE("a rank without peers needs no secret and no address") {
  auto alone = Create({.attempt = 5});
  CHECK(alone->address().empty());
  CHECK(alone->Connect({alone->address()}, Soon()).ok());
  CHECK(alone->Close(Soon()).ok());
}

TEST_CASE("what a rank sent before it closed is received, what it did not is not waited for") {
  const Links links = GENERATE(Links::kTcp, Links::kSharedMemory);
  CAPTURE(static_cast<int>(links));
  auto ranks = Connected(3, links);
  Mutex mutex;
  ConditionVariable changed;
  std::vector<std::string> told;
  // Set late: nobody is gone yet.
  ranks[0]->OnGone([&](int rank, bool left, const std::string& why) {
    MutexLock lock(mutex);
    told.push_back(std::to_string(rank) + (left ? " left: " : " died: ") + why);
    changed.NotifyAll();
  });
  CHECK(SendNumber(ranks[1]->transport(), 0, 7).ok());
  CHECK(SendNumber(ranks[1]->transport(), 0, 8).ok());
  CHECK(ranks[1]->Close(Soon()).ok());
  CHECK(*ReceiveNumber(ranks[0]->transport(), 1) == 7);
  CHECK(*ReceiveNumber(ranks[0]->transport(), 1) == 8);
  const absl::StatusOr<int> never = ReceiveNumber(ranks[0]->transport(), 1);
  CAPTURE(never.status().ToString());
  CHECK(absl::IsUnavailable(never.status()));
  CHECK_THAT(std::string(never.status().message()), Catch::Contains("rank 1"));
  // The others still talk.
  CHECK(SendNumber(ranks[2]->transport(), 0, 9).ok());
  CHECK(*ReceiveNumber(ranks[0]->transport(), 2) == 9);
  {
    MutexLock lock(mutex);
    CHECK(changed.WaitUntil(mutex, Soon(), [&] { return !told.empty(); }));
    CHECK(told == std::vector<std::string>{"1 left: closed"});
  }
  ranks[0]->OnGone(nullptr);
  ranks.clear();
}

TEST_CASE("a rank that is destroyed without closing fails what needs it, over any link") {
  const Links links = GENERATE(Links::kTcp, Links::kSharedMemory);
  CAPTURE(static_cast<int>(links));
  auto ranks = Connected(2, links);
  absl::StatusOr<int> got = 0;
  std::thread waiting([&] { got = ReceiveNumber(ranks[0]->transport(), 1); });
  ranks[1].reset();
  waiting.join();
  CAPTURE(got.status().ToString());
  CHECK(absl::IsUnavailable(got.status()));
  CHECK(ranks[0]->Close(Soon()).ok());
}

TEST_CASE("a rank that gives up fails the others by its reason, over any link") {
  const Links links = GENERATE(Links::kTcp, Links::kSharedMemory);
  CAPTURE(static_cast<int>(links));
  auto ranks = Connected(2, links);
  absl::StatusOr<int> got = 0;
  std::thread waiting([&] { got = ReceiveNumber(ranks[0]->transport(), 1); });
  ranks[1]->GiveUp("rank 7 is gone: silent for 4.0 s", Soon());
  ranks[1].reset();
  waiting.join();
  CAPTURE(got.status().ToString());
  CHECK(absl::IsUnavailable(got.status()));
  CHECK_THAT(std::string(got.status().message()),
             Catch::Contains("it gave up: rank 7 is gone: silent for 4.0 s"));
}

TEST_CASE("a member with the wrong secret is refused, and UCX never sees its address") {
  auto right = Create(OptionsOf(0, 2, Links::kTcp));
  Communicator::Options options = OptionsOf(1, 2, Links::kTcp);
  options.secret = "another secret, as long";
  auto wrong = Create(options);
  const std::vector<std::string> addresses = {right->address(), wrong->address()};
  const auto statuses = OnEveryRank(2, [&](int rank) {
    return rank == 1 ? wrong->Connect(addresses, Soon())
                     : right->Connect(addresses, Now() + absl::Seconds(3));
  });
  CHECK(absl::IsPermissionDenied(statuses[1]));
  CHECK_THAT(std::string(statuses[1].message()), Catch::Contains("rank 0"));
  CHECK(absl::IsDeadlineExceeded(statuses[0]));
  CHECK_THAT(std::string(statuses[0].message()), Catch::Contains("rank 1"));
  CHECK(right->refused() >= 1);
}

TEST_CASE("a member of an old attempt is refused") {
  auto now = Create(OptionsOf(0, 2, Links::kTcp));
  Communicator::Options options = OptionsOf(1, 2, Links::kTcp);
  options.attempt = 4;
  auto old = Create(options);
  const absl::Status status = old->Connect({now->address(), old->address()}, Soon());
  CHECK(absl::IsInvalidArgument(status));
  CHECK_THAT(std::string(status.message()), Catch::Contains("rank 0: the address is of rank 0 in attempt 5"));
}

TEST_CASE("options that cannot be are refused by name") {
  const auto refused = [](Communicator::Options options) {
    return std::string(Communicator::Create(options).status().message());
  };
  Communicator::Options options = OptionsOf(0, 2, Links::kTcp);
  options.secret = "short";
  CHECK_THAT(refused(options), Catch::Contains("secret has 5 bytes"));
  options = OptionsOf(2, 2, Links::kTcp);
  CHECK_THAT(refused(options), Catch::Contains("rank is 2"));
  options = OptionsOf(0, 2, Links::kTcp);
  options.network_devices = "nowhere7";
  CHECK_THAT(refused(options), Catch::Contains("nowhere7"));
}

TEST_CASE("ranks that are no peers have no connection, and are refused") {
  const Links links = GENERATE(Links::kTcp, Links::kSharedMemory);
  constexpr int kSize = 4;  // in a ring
  std::vector<std::unique_ptr<Communicator>> ranks;
  std::vector<std::string> addresses;
  for (int rank = 0; rank < kSize; ++rank) {
    Communicator::Options options = OptionsOf(rank, kSize, links);
    options.peers = {{(rank + 1) % kSize, (rank + kSize - 1) % kSize}};
    ranks.push_back(Create(options));
    addresses.push_back(ranks.back()->address());
  }
  for (const absl::Status& status :
       OnEveryRank(kSize, [&](int rank) { return ranks[rank]->Connect(addresses, Soon()); })) {
    INFO(status.ToString());
    REQUIRE(status.ok());
  }
  for (const absl::Status& status : OnEveryRank(
           kSize, [&](int rank) { return SendNumber(ranks[rank]->transport(), (rank + 1) % kSize, rank); })) {
    CHECK(status.ToString() == "OK");
  }
  Transport& transport = ranks[0]->transport();
  CHECK(transport.IsPeer(1));
  CHECK_FALSE(transport.IsPeer(2));
  CHECK_FALSE(transport.IsPeer(0));
  CHECK_FALSE(transport.SharesMemory(2));
  const absl::Status refused = transport.Send(2, {}, {}).status();
  CHECK(absl::IsInvalidArgument(refused));
  CHECK(refused.message() == "peer is 2, no peer of this rank, 0");
  transport.MarkGone(2, "nobody");  // it is nobody here
  CHECK(absl::IsInvalidArgument(ranks[0]->Ask(2, "?", Soon()).status()));
}

}  // namespace
}  // namespace medley
