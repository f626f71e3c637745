#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <catch2/catch.hpp>
#include <random>

#include "comm/session/frame.h"
#include "comm/session/handshake.h"
#include "comm/session/session_address.h"
#include "comm/session/socket.h"
#include "comm/session/test_sessions.h"

namespace medley {
namespace {

// Somebody with nothing but a socket and the address.
class Attacker {
 public:
  explicit Attacker(const std::string& address) {
    const Endpoint endpoint = DecodeSessionAddress(address)->endpoints.front();
    socket_ = *BeginConnect(endpoint);
    Poll(POLLOUT);
    CHECK(SocketError(socket_).ok());
  }
  void Send(std::string bytes) {
    while (!bytes.empty() && SendFrom(socket_, bytes).ok()) Poll(POLLOUT);
  }
  // What the other end says, until it says `bytes` of it or ends the connection.
  std::string Read(size_t bytes) {
    std::string got;
    while (got.size() < bytes) {
      Poll(POLLIN);
      const auto result = ReadInto(socket_, bytes - got.size(), got);
      if (!result.ok() || *result == ReadResult::kEnd) break;
    }
    return got;
  }
  bool IsTurnedAway() { return Read(100000).size() < 100000; }

 private:
  void Poll(short event) {
    pollfd waiting = {socket_.get(), event, 0};
    REQUIRE(poll(&waiting, 1, 20000) == 1);
  }
  Descriptor socket_;
};

std::string Noise(std::mt19937_64& random, size_t size) {
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

Handshake::Self StrangerAs(int rank) {
  return {
      .attempt = 5, .rank = rank, .size = 2, .secret = "what an attacker thinks it is", .payload = "evil"};
}

void ConnectAllTheSame(TestSessions& sessions) {
  for (const absl::Status& status : sessions.Connect()) {
    INFO(status.ToString());
    CHECK(status.ok());
  }
}

TEST_CASE("noise, huge lengths and what only members may say are turned away and counted") {
  std::mt19937_64 random(1);
  const std::string attempts[] = {Noise(random, 5),
                                  Noise(random, 1000),
                                  Noise(random, 100000),
                                  std::string("\xFF\xFF\xFF\xFF\x01", 5),
                                  std::string("\xFF\xFF\xFF\xFF\x04", 5),
                                  EncodeFrame(Frame::Type::kPayload, "evil"),
                                  EncodeFrame(Frame::Type::kGoodbye, ""),
                                  EncodeFrame(Frame::Type::kQuestion, EncodeEnquiry({1, true, "secret?"})),
                                  EncodeFrame(Frame::Type::kProof, std::string(32, '\0')),
                                  EncodeFrame(Frame::Type::kHello, std::string(120, '\0'))};
  auto sessions = TestSessions::Listen(2);
  uint64_t count = 0;
  for (const std::string& attempt : attempts) {
    CAPTURE(count);
    Attacker attacker(sessions.addresses[0]);
    attacker.Send(attempt);
    CHECK(attacker.IsTurnedAway());
    CHECK(Eventually([&] { return sessions.ranks[0]->refused() == count + 1; }));
    ++count;
  }
  ConnectAllTheSame(sessions);
  CHECK(sessions.ranks[0]->refused() == count);
}

TEST_CASE(
    "the right hello with the wrong proof is turned away, told no proof, and the member connects all the "
    "same") {
  auto sessions = TestSessions::Listen(2);
  Handshake::Self stranger = StrangerAs(1);
  stranger.address = Sha256(sessions.addresses[1]);
  Handshake handshake = Handshake::OfConnector(stranger, *FreshNonce(), 0, Sha256(sessions.addresses[0]));
  Attacker attacker(sessions.addresses[0]);
  attacker.Send(handshake.TakeOutput());
  handshake.Receive(attacker.Read(EncodeFrame(Frame::Type::kHello, EncodeHello({})).size()));
  attacker.Send(handshake.TakeOutput());
  handshake.Receive(attacker.Read(100000));
  CHECK(handshake.verdict() == Handshake::Verdict::kFailed);
  CHECK_THAT(std::string(handshake.error().message()), Catch::Contains("another secret"));
  CHECK(Eventually([&] { return sessions.ranks[0]->refused() == 1; }));  // counted after it was said
  ConnectAllTheSame(sessions);
  CHECK(sessions.ranks[0]->payload(1) == "payload of 1");
}

TEST_CASE(
    "a member with the wrong secret, or of another attempt, is denied by rank; the right one connects "
    "later") {
  const bool is_old = GENERATE(false, true);
  auto sessions = TestSessions::Listen(2);
  Session::Options options = TestOptions(1, 2);
  if (is_old) {
    options.attempt = 4;
  } else {
    options.secret = "another secret, as long";
  }
  auto wrong = *Session::Listen(options);
  SessionAddress seen_by_it = *DecodeSessionAddress(sessions.addresses[0]);
  seen_by_it.attempt = options.attempt;
  const absl::Status denied = wrong->Connect({EncodeSessionAddress(seen_by_it), ""}, Soon());
  CAPTURE(denied.ToString());
  CHECK(absl::IsPermissionDenied(denied));
  CHECK_THAT(std::string(denied.message()),
             Catch::Contains(is_old ? "rank 0 refused: it runs attempt 5, not 4"
                                    : "rank 0 refused: it has another secret"));
  // It tried them all.
  CHECK(Eventually([&] { return sessions.ranks[0]->refused() == seen_by_it.endpoints.size(); }));
  ConnectAllTheSame(sessions);
}

TEST_CASE("a listener that does not know the secret gets nobody's trust") {
  auto sessions = TestSessions::Listen(2);
  Session::Options options = TestOptions(0, 2);
  options.secret = "another secret, as long";
  auto impostor = *Session::Listen(options);
  const absl::Status denied = sessions.ranks[1]->Connect({impostor->address(), ""}, Soon());
  CHECK(absl::IsPermissionDenied(denied));
  CHECK_THAT(std::string(denied.message()), Catch::Contains("rank 0"));
}

std::vector<std::unique_ptr<Attacker>> Crowd(const std::string& address, size_t size) {
  const std::string hello = EncodeFrame(Frame::Type::kHello, EncodeHello({5, 1, 0}));
  std::vector<std::unique_ptr<Attacker>> crowd;
  for (size_t i = 0; i < size; ++i) {
    crowd.push_back(std::make_unique<Attacker>(address));
    crowd.back()->Send(hello.substr(0, i % hello.size()));
  }
  return crowd;
}

TEST_CASE("connections that prove nothing in time are ended") {
  auto sessions = TestSessions::Listen(2, [](auto& options) { options.handshake_limit = absl::Seconds(2); });
  const auto crowd = Crowd(sessions.addresses[0], 60);  // as many as are let in
  for (const auto& attacker : crowd) CHECK(attacker->IsTurnedAway());
  CHECK(Eventually([&] { return sessions.ranks[0]->refused() == 60; }));
  ConnectAllTheSame(sessions);
}

TEST_CASE("connections without proof that are too many make room, the oldest first") {
  auto sessions = TestSessions::Listen(2, [](auto& options) { options.handshake_limit = absl::Minutes(1); });
  const auto crowd = Crowd(sessions.addresses[0], 100);
  CHECK(Eventually([&] { return sessions.ranks[0]->refused() == 36; }));
  for (size_t i = 0; i < 36; ++i) CHECK(crowd[i]->IsTurnedAway());
  ConnectAllTheSame(sessions);
  CHECK(sessions.ranks[0]->refused() == 37);
}

}  // namespace
}  // namespace medley
