#include "comm/session/session.h"

#include <catch2/catch.hpp>
#include <filesystem>

#include "comm/session/session_address.h"
#include "comm/session/test_sessions.h"
#include "runtime/base/clock.h"

namespace medley {
namespace {

#define REQUIRE_ALL_OK(statuses)               \
  for (const absl::Status& one : (statuses)) { \
    INFO(one.ToString());                      \
    REQUIRE(one.ok());                         \
  }

size_t OpenDescriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(all), end(all)));
}

TEST_CASE("options that cannot be are refused by name") {
  const auto refused = [](const std::function<void(Session::Options&)>& change) {
    Session::Options options = TestOptions(0, 2);
    change(options);
    const absl::Status status = Session::Listen(options).status();
    CHECK(absl::IsInvalidArgument(status));
    return std::string(status.message());
  };
  CHECK(refused([](auto& o) { o.size = 0; }) == "size is 0, not in [1, 65536]");
  CHECK(refused([](auto& o) { o.peers = {{9}}; }) == "peers[0] is 9, not in [0, 2) without this rank, 0");
  CHECK(refused([](auto& o) { o.size = 65537; }) == "size is 65537, not in [1, 65536]");
  CHECK(refused([](auto& o) { o.rank = 2; }) == "rank is 2, not in [0, 2)");
  CHECK(refused([](auto& o) { o.rank = -1; }) == "rank is -1, not in [0, 2)");
  CHECK(refused([](auto& o) { o.secret = "fifteen bytes.."; }) == "secret has 15 bytes, not 16 to 1024");
  CHECK_THAT(refused([](auto& o) { o.payload = std::string(65537, 'x'); }), Catch::Contains("65537 bytes"));
  CHECK_THAT(refused([](auto& o) { o.network_devices = "nowhere7"; }), Catch::Contains("nowhere7"));
  CHECK_THAT(refused([](auto& o) { o.silence_limit = o.heartbeat; }), Catch::Contains("silence_limit is 1s"));
  CHECK_THAT(refused([](auto& o) { o.heartbeat = absl::ZeroDuration(); }), Catch::Contains("heartbeat is 0"));
}

TEST_CASE("addresses that cannot be are refused by rank") {
  auto sessions = TestSessions::Listen(2);
  const auto refused = [&](const std::vector<std::string>& addresses) {
    const absl::Status status = sessions.ranks[0]->Connect(addresses, Soon());
    CHECK(absl::IsInvalidArgument(status));
    return std::string(status.message());
  };
  CHECK(refused({sessions.addresses[0]}) == "1 addresses for 2 ranks");
  CHECK_THAT(refused({"", "nonsense"}), Catch::StartsWith("rank 1: "));
  CHECK_THAT(refused({"", sessions.addresses[0]}),
             Catch::Contains("is of rank 0 in attempt 5, not of rank 1"));
  SessionAddress late = *DecodeSessionAddress(sessions.addresses[1]);
  late.attempt = 4;
  CHECK_THAT(refused({"", EncodeSessionAddress(late)}), Catch::Contains("is of rank 1 in attempt 4"));
}

TEST_CASE("any number of ranks connect and know each other's payloads") {
  const int size = GENERATE(1, 2, 3, 5, 8);
  CAPTURE(size);
  auto sessions = TestSessions::Listen(size, [&](auto& options) {
    if (options.rank == size - 1) options.payload = std::string(kMaximumPayloadBytes, 'x');
  });
  REQUIRE(sessions.ranks.size() == static_cast<size_t>(size));
  REQUIRE_ALL_OK(sessions.Connect());
  for (const auto& session : sessions.ranks) {
    for (int rank = 0; rank < size - 1; ++rank)
      CHECK(session->payload(rank) == "payload of " + std::to_string(rank));
    CHECK(session->payload(size - 1) == std::string(kMaximumPayloadBytes, 'x'));
    CHECK(session->refused() == 0);
    CHECK(absl::IsFailedPrecondition(session->Connect(sessions.addresses, Soon())));
  }
}

TEST_CASE("questions are answered, by the right one, with the right answer") {
  auto sessions = TestSessions::Listen(3);
  for (int rank = 0; rank < 2; ++rank) {
    sessions.ranks[rank]->OnQuestion([rank](int asker, const std::string& question) {
      return question == "much" ? std::string(99999, 'y')
                                : std::to_string(rank) + " to " + std::to_string(asker) + ": " + question;
    });
  }
  CHECK(absl::IsFailedPrecondition(sessions.ranks[0]->Ask(1, "early", Soon()).status()));
  REQUIRE_ALL_OK(sessions.Connect());
  std::vector<std::thread> askers;
  std::atomic<int> right{0};
  for (int asker = 1; asker < 3; ++asker) {
    for (int thread = 0; thread < 4; ++thread) {
      askers.emplace_back([&, asker, thread] {
        for (int i = 0; i < 25; ++i) {
          const std::string question = std::to_string(thread * 100 + i);
          const auto answer = sessions.ranks[asker]->Ask(0, question, Soon());
          right += answer.ok() && *answer == "0 to " + std::to_string(asker) + ": " + question;
        }
      });
    }
  }
  for (std::thread& asker : askers) asker.join();
  CHECK(right == 200);
  CHECK(sessions.ranks[0]->Ask(1, "much", Soon())->size() == kMaximumQuestionBytes);
  CHECK(sessions.ranks[0]->Ask(1, std::string(kMaximumQuestionBytes, '?'), Soon())->size() ==
        kMaximumQuestionBytes);
  CHECK(absl::IsUnimplemented(sessions.ranks[0]->Ask(2, "anybody?", Soon()).status()));
  const auto answers = sessions.ranks[0]->AskAll({2, 1, 0, 1}, "much", Soon());
  REQUIRE(answers.size() == 4);
  CHECK(absl::IsUnimplemented(answers[0].status()));
  CHECK(answers[1]->size() == kMaximumQuestionBytes);
  CHECK(absl::IsInvalidArgument(answers[2].status()));
  CHECK(answers[3]->size() == kMaximumQuestionBytes);
  CHECK(absl::IsInvalidArgument(sessions.ranks[0]->Ask(0, "", Soon()).status()));
  CHECK(absl::IsInvalidArgument(sessions.ranks[0]->Ask(3, "", Soon()).status()));
  CHECK(absl::IsInvalidArgument(sessions.ranks[0]->Ask(1, std::string(4097, '?'), Soon()).status()));
}

// Ranks in a line: each is a peer of the one before it and the one after it.
std::vector<int> InALine(int rank, int size) {
  std::vector<int> peers;
  if (rank > 0) peers.push_back(rank - 1);
  if (rank + 1 < size) peers.push_back(rank + 1);
  return peers;
}

TEST_CASE("a rank connects to its peers alone, and knows of nobody else") {
  constexpr int kSize = 5;
  auto sessions = TestSessions::Listen(
      kSize, [](Session::Options& options) { options.peers = InALine(options.rank, options.size); });
  REQUIRE(sessions.ranks.size() == kSize);
  for (auto& session : sessions.ranks)
    session->OnQuestion([](int rank, const std::string&) { return "asked by " + std::to_string(rank); });
  std::vector<absl::Status> statuses(kSize);
  std::vector<std::thread> threads;
  for (int i = 0; i < kSize; ++i) {
    threads.emplace_back([&, i] {
      std::vector<std::string> addresses(kSize);  // of those that are no peers nothing is known
      for (const int peer : InALine(i, kSize)) addresses[peer] = sessions.addresses[peer];
      statuses[i] = sessions.ranks[i]->Connect(addresses, Soon());
    });
  }
  for (std::thread& thread : threads) thread.join();
  REQUIRE_ALL_OK(statuses);
  CHECK(sessions.ranks[1]->payload(2) == "payload of 2");
  CHECK(sessions.ranks[1]->payload(3).empty());
  CHECK(*sessions.ranks[1]->Ask(2, "?", Soon()) == "asked by 1");
  const absl::Status stranger = sessions.ranks[1]->Ask(3, "?", Soon()).status();
  CHECK(absl::IsInvalidArgument(stranger));
  CHECK(stranger.message() == "rank is 3, no peer of this rank, 1");
  sessions.ranks[2].reset();
  CHECK(sessions.gone[1]->Await(2).times == 1);
  CHECK(sessions.gone[3]->Await(2).times == 1);
  CHECK(sessions.gone[0]->Count() == 0);
  CHECK(sessions.gone[4]->Count() == 0);
}

TEST_CASE("who is no peer is turned away, and the one that seeks it says whom it misses") {
  auto sessions = TestSessions::Listen(3, [](Session::Options& options) {
    if (options.rank == 0) options.peers = std::vector<int>{2};
  });
  REQUIRE(sessions.ranks.size() == 3);
  const std::vector<absl::Status> statuses = sessions.Connect();
  CHECK(statuses[0].ok());
  CHECK_FALSE(statuses[1].ok());  // it takes rank 0 for its peer
  CHECK_THAT(std::string(statuses[1].message()), Catch::Contains("rank 0"));
  CHECK(sessions.ranks[0]->refused() > 0);
}

TEST_CASE("several are asked at once: none answers before all have heard the question") {
  Mutex mutex;
  ConditionVariable changed;
  int asked = 0;
  auto sessions = TestSessions::Listen(4);
  for (int rank = 1; rank < 4; ++rank) {
    sessions.ranks[rank]->OnQuestion([&, rank](int, const std::string&) {
      MutexLock lock(mutex);
      ++asked;
      changed.NotifyAll();
      changed.WaitUntil(mutex, Soon(), [&] { return asked == 3; });
      return std::to_string(rank);
    });
  }
  REQUIRE_ALL_OK(sessions.Connect());
  const auto answers = sessions.ranks[0]->AskAll({3, 1, 2}, "?", Soon());
  REQUIRE(answers.size() == 3);
  for (const auto& answer : answers) REQUIRE(answer.ok());
  CHECK((*answers[0] == "3" && *answers[1] == "1" && *answers[2] == "2"));
}

TEST_CASE("a question to a peer that is slow ends at the deadline, to one that goes at once") {
  Mutex mutex;
  ConditionVariable changed;
  bool is_asked = false, may_answer = false;
  auto sessions = TestSessions::Listen(2);
  sessions.ranks[1]->OnQuestion([&](int, const std::string&) {
    MutexLock lock(mutex);
    is_asked = true;
    changed.NotifyAll();
    changed.WaitUntil(mutex, Soon(), [&] { return may_answer; });
    return std::string("late");
  });
  REQUIRE_ALL_OK(sessions.Connect());
  const absl::Status slow = sessions.ranks[0]->Ask(1, "?", Now() + absl::Milliseconds(20)).status();
  CHECK(absl::IsDeadlineExceeded(slow));
  CHECK_THAT(std::string(slow.message()), Catch::Contains("rank 1"));
  absl::Status gone;
  std::thread asker([&] { gone = sessions.ranks[0]->Ask(1, "again", Soon()).status(); });
  {
    MutexLock lock(mutex);
    changed.WaitUntil(mutex, Soon(), [&] { return is_asked; });
    may_answer = true;
    changed.NotifyAll();
  }
  sessions.ranks[1].reset();
  asker.join();
  CHECK((absl::IsUnavailable(gone) || gone.ok()));  // it may have answered before it went
  CHECK(sessions.gone[0]->Await(1).times == 1);
  CHECK(absl::IsUnavailable(sessions.ranks[0]->Ask(1, "?", Soon()).status()));
}

TEST_CASE("who says goodbye has left, who does not is gone, and each is told once") {
  auto sessions = TestSessions::Listen(4);
  REQUIRE_ALL_OK(sessions.Connect());
  const absl::Time begin = Now();
  sessions.ranks[3]->Close(Soon());
  CHECK(Now() - begin < absl::Seconds(15));  // nobody has to time out
  sessions.ranks[2].reset();
  for (int rank = 0; rank < 2; ++rank) {
    const auto left = sessions.gone[rank]->Await(3), gone = sessions.gone[rank]->Await(2);
    CHECK(left.left);
    CHECK(left.why == "closed");
    CHECK_FALSE(gone.left);
    CHECK_THAT(gone.why, Catch::Contains("connection"));
  }
  CHECK(sessions.gone[3]->Count() == 0);
  CHECK(absl::IsUnavailable(sessions.ranks[3]->Ask(0, "?", Soon()).status()));
  CHECK_THAT(std::string(sessions.ranks[0]->Ask(3, "?", Soon()).status().message()),
             Catch::Contains("rank 3 is gone: closed"));
  // Both at once.
  const absl::Time both = Now();
  std::thread other([&] { sessions.ranks[1]->Close(Soon()); });
  sessions.ranks[0]->Close(Soon());
  other.join();
  CHECK(Now() - both < absl::Seconds(15));
  sessions.ranks[0]->Close(Soon());
  for (int rank = 0; rank < 2; ++rank) CHECK(sessions.gone[rank]->Count() <= 3);
}

TEST_CASE("who gives up says why, and has not left") {
  auto sessions = TestSessions::Listen(3);
  REQUIRE_ALL_OK(sessions.Connect());
  sessions.ranks[2]->Close(Soon(), "rank 1 is gone: silent for 4.0 s" + std::string(5000, '.'));
  for (int rank = 0; rank < 2; ++rank) {
    const auto gone = sessions.gone[rank]->Await(2);
    CHECK_FALSE(gone.left);
    CHECK_THAT(gone.why, Catch::StartsWith("it gave up: rank 1 is gone: silent for 4.0 s...."));
    CHECK(gone.why.size() < 1100);
  }
}

TEST_CASE("a rank that never connects is named at the deadline") {
  auto sessions = TestSessions::Listen(3);
  std::vector<absl::Status> statuses(2);
  std::thread other(
      [&] { statuses[1] = sessions.ranks[1]->Connect(sessions.addresses, Now() + absl::Seconds(3)); });
  statuses[0] = sessions.ranks[0]->Connect(sessions.addresses, Now() + absl::Seconds(3));
  other.join();
  for (const absl::Status& status : statuses) {
    CAPTURE(status.ToString());
    CHECK(absl::IsDeadlineExceeded(status));
    CHECK_THAT(std::string(status.message()), Catch::Contains("rank 2 not connected"));
  }
}

TEST_CASE("a rank that is not there any more is unavailable long before the deadline") {
  auto sessions = TestSessions::Listen(2);
  sessions.ranks[0].reset();
  const absl::Time begin = Now();
  const absl::Status status = sessions.ranks[1]->Connect(sessions.addresses, Now() + absl::Minutes(1));
  CHECK(absl::IsUnavailable(status));
  CHECK_THAT(std::string(status.message()),
             Catch::Contains("rank 0 cannot be reached: connection refused at 127.0.0.1:"));
  CHECK(Now() - begin < absl::Seconds(20));
}

TEST_CASE("a rank that gives up while others connect is named by them") {
  auto sessions = TestSessions::Listen(3);
  std::vector<absl::Status> statuses(2);
  std::thread first(
      [&] { statuses[0] = sessions.ranks[0]->Connect(sessions.addresses, Now() + absl::Minutes(1)); });
  CHECK_FALSE(sessions.ranks[1]->Connect(sessions.addresses, Now() + absl::Seconds(3)).ok());
  sessions.ranks[1].reset();
  first.join();
  CHECK(absl::IsUnavailable(statuses[0]));
  CHECK_THAT(std::string(statuses[0].message()), Catch::Contains("rank 1 went"));
}

TEST_CASE("hundreds of sessions that come and go leave no descriptor behind") {
  size_t before = 0;
  for (int cycle = 0; cycle < 300; ++cycle) {
    if (cycle == 1) before = OpenDescriptors();
    auto sessions = TestSessions::Listen(2);
    REQUIRE(sessions.ranks.size() == 2);
    REQUIRE_ALL_OK(sessions.Connect());
    if (cycle % 2 == 0) {
      std::thread other([&] { sessions.ranks[1]->Close(Soon()); });
      sessions.ranks[0]->Close(Soon());
      other.join();
    }
  }
  CHECK(OpenDescriptors() == before);
}

}  // namespace
}  // namespace medley
