#include "comm/session/handshake.h"

#include <catch2/catch.hpp>
#include <random>
#include <vector>

namespace medley {
namespace {

using Verdict = Handshake::Verdict;

Handshake::Self SelfOf(int rank) {
  return {.attempt = 5,
          .rank = rank,
          .size = 4,
          .secret = "a secret of the attempt",
          .payload = "payload of " + std::to_string(rank),
          .address = Sha256("address of " + std::to_string(rank))};
}

Nonce NonceOf(uint64_t seed) {
  std::mt19937_64 random(seed);
  Nonce nonce;
  for (uint8_t& byte : nonce) byte = static_cast<uint8_t>(random());
  return nonce;
}

// Rank 2 connects to rank 1.
struct Pair {
  Handshake::Self high = SelfOf(2), low = SelfOf(1);
  uint64_t seed = 0;
  Handshake connector() { return Handshake::OfConnector(high, NonceOf(seed * 2), 1, Sha256("address of 1")); }
  Handshake acceptor() { return Handshake::OfAcceptor(low, NonceOf(seed * 2 + 1)); }
};

// Lets both talk until neither has anything to say.
void Converse(Handshake& a, Handshake& b) {
  for (int i = 0; i < 4; ++i) {
    b.Receive(a.TakeOutput());
    a.Receive(b.TakeOutput());
  }
}

// What a run of both says, message by message: hello, hello, proof, proof and payload, payload.
std::vector<std::string> Record(Pair pair) {
  Handshake a = pair.connector(), b = pair.acceptor();
  std::vector<std::string> said;
  for (int i = 0; i < 3; ++i) {
    said.push_back(a.TakeOutput());
    b.Receive(said.back());
    said.push_back(b.TakeOutput());
    a.Receive(said.back());
  }
  REQUIRE(a.verdict() == Verdict::kProven);
  REQUIRE(b.verdict() == Verdict::kProven);
  said.pop_back();  // empty
  return said;
}

TEST_CASE("two members prove themselves and hand over their payloads, however the bytes are cut") {
  const size_t piece = GENERATE(size_t{1}, size_t{2}, size_t{7}, size_t{10000});
  CAPTURE(piece);
  Pair pair;
  Handshake a = pair.connector(), b = pair.acceptor();
  const auto deliver = [&](std::string bytes, Handshake& to) {
    for (size_t at = 0; at < bytes.size(); at += piece) to.Receive(bytes.substr(at, piece));
  };
  for (int i = 0; i < 3; ++i) {
    deliver(a.TakeOutput(), b);
    deliver(b.TakeOutput(), a);
  }
  REQUIRE(a.verdict() == Verdict::kProven);
  REQUIRE(b.verdict() == Verdict::kProven);
  CHECK(a.peer() == 1);
  CHECK(b.peer() == 2);
  CHECK(a.TakePayload() == "payload of 1");
  CHECK(b.TakePayload() == "payload of 2");
  CHECK(b.peer_address() == Sha256("address of 2"));
}

TEST_CASE("what comes right after the handshake is kept for later") {
  Pair pair;
  Handshake a = pair.connector(), b = pair.acceptor();
  b.Receive(a.TakeOutput());
  a.Receive(b.TakeOutput());
  b.Receive(a.TakeOutput());
  a.Receive(b.TakeOutput());
  b.Receive(a.TakeOutput() + EncodeFrame(Frame::Type::kGoodbye, ""));
  REQUIRE(b.verdict() == Verdict::kProven);
  FrameDecoder rest = b.TakeDecoder();
  const auto frame = rest.Next(FrameDecoder::Trust::kMember);
  REQUIRE((frame.ok() && frame->has_value()));
  CHECK((*frame)->type == Frame::Type::kGoodbye);
}

// Everything that may differ between two that think they belong together, and who finds out with what.
TEST_CASE("whoever differs is refused") {
  struct Case {
    const char* name;
    void (*change)(Pair&);
    absl::StatusCode connector, acceptor;
    const char* message;  // the connector's
  };
  using absl::StatusCode;
  static const Case kCases[] = {
      {"secret", [](Pair& p) { p.high.secret.back() ^= 1; }, StatusCode::kPermissionDenied,
       StatusCode::kPermissionDenied, "rank 1 refused: it has another secret for attempt 5"},
      {"longer secret", [](Pair& p) { p.high.secret += 'x'; }, StatusCode::kPermissionDenied,
       StatusCode::kPermissionDenied, "rank 1 refused: it has another secret for attempt 5"},
      {"attempt", [](Pair& p) { p.low.attempt = 7; }, StatusCode::kPermissionDenied,
       StatusCode::kPermissionDenied, "rank 1 refused: it runs attempt 7, not 5"},
      {"rank", [](Pair& p) { p.low.rank = 0; }, StatusCode::kNotFound, StatusCode::kNotFound,
       "somebody else than rank 1 answered"},
      {"swapped ranks", [](Pair& p) { std::swap(p.low.rank, p.high.rank); }, StatusCode::kNotFound,
       StatusCode::kNotFound, "somebody else"},
      {"size", [](Pair& p) { p.low.size = 2; }, StatusCode::kNotFound, StatusCode::kNotFound,
       "somebody else"},
      {"incarnation", [](Pair& p) { p.low.address[3] ^= 1; }, StatusCode::kNotFound, StatusCode::kOk,
       "somebody else"},
      {"connected before", [](Pair& p) { p.low.is_taken = [](int rank) { return rank == 2; }; },
       StatusCode::kAlreadyExists, StatusCode::kAlreadyExists, "was connected to this rank before"},
  };
  const size_t i = GENERATE(range(size_t{0}, std::size(kCases)));
  const Case& one = kCases[i];
  CAPTURE(one.name);
  Pair pair;
  one.change(pair);
  Handshake a = pair.connector(), b = pair.acceptor();
  Converse(a, b);
  CHECK(a.verdict() == Verdict::kFailed);
  CHECK(a.error().code() == one.connector);
  CHECK_THAT(std::string(a.error().message()), Catch::Contains(one.message));
  CHECK(b.error().code() == one.acceptor);
  CHECK(b.verdict() == (one.acceptor == StatusCode::kOk ? Verdict::kUnfinished : Verdict::kFailed));
}

TEST_CASE("an acceptor without the secret proves nothing") {
  Pair pair;
  Handshake a = pair.connector();
  const std::vector<std::string> said = Record(pair);
  a.Receive(said[1]);
  // All that an impostor can say in place of the proof: its own guess, or what it has just heard.
  const std::string heard = a.TakeOutput().substr(EncodeFrame(Frame::Type::kHello, EncodeHello({})).size());
  const std::string guess = EncodeFrame(Frame::Type::kProof, std::string(32, '\0'));
  Handshake b = a;
  CHECK(a.Receive(guess) == Verdict::kFailed);
  CHECK(absl::IsPermissionDenied(a.error()));
  REQUIRE(heard.size() == guess.size());
  CHECK(b.Receive(heard) == Verdict::kFailed);  // reflected
  CHECK_THAT(std::string(b.error().message()), Catch::Contains("rank 1 could not prove"));
}

TEST_CASE("two handshakes cannot be played against each other") {
  // An attacker without the secret opens a connection to rank 1 as rank 2, and lets rank 2 connect to itself
  // as rank 1: all it can do is to pass messages on, of another connection (with other nonces) or in the
  // other direction.
  Pair first, second;
  second.seed = 1;
  const std::vector<std::string> replayed = Record(first);
  Handshake acceptor = second.acceptor();
  CHECK(acceptor.Receive(replayed[0]) == Verdict::kUnfinished);
  // A proof of before: the acceptor's challenge is fresh.
  CHECK(acceptor.Receive(replayed[2]) == Verdict::kFailed);
  CHECK(absl::IsPermissionDenied(acceptor.error()));
  Handshake connector = second.connector();
  connector.Receive(replayed[1]);
  CHECK(connector.Receive(replayed[3]) == Verdict::kFailed);
  CHECK(absl::IsPermissionDenied(connector.error()));
  // A connector that gets its own hello back.
  Handshake mirrored = first.connector();
  CHECK(mirrored.Receive(mirrored.TakeOutput()) == Verdict::kFailed);
}

TEST_CASE("a stranger's payload is refused by its first bytes, before it fills memory") {
  Pair pair;
  for (Handshake one : {pair.acceptor(), pair.connector()}) {
    const std::string frame = EncodeFrame(Frame::Type::kPayload, std::string(60000, 'x'));
    CHECK(one.Receive(frame.substr(0, 5)) == Verdict::kFailed);
    CHECK(absl::IsInvalidArgument(one.error()));
  }
}

TEST_CASE("who sits between two members cannot put in a payload or an address of its own") {
  const bool is_payload = GENERATE(true, false);
  const bool is_connectors = GENERATE(true, false);
  CAPTURE(is_payload, is_connectors);
  Pair pair;
  // What an attacker would make of a hello, so that it fits what it puts in later.
  const auto alter = [&](const std::string& hello) {
    const size_t header = EncodeFrame(Frame::Type::kHello, "").size();
    Introduction said = *DecodeHello(std::string_view(hello).substr(header));
    (is_payload ? said.payload : said.address) = Sha256("evil");
    return EncodeFrame(Frame::Type::kHello, EncodeHello(said));
  };
  Handshake a = Handshake::OfConnector(pair.high, NonceOf(1), 1,
                                       Sha256(is_payload || is_connectors ? "address of 1" : "evil"));
  Handshake b = pair.acceptor();
  b.Receive(is_connectors ? alter(a.TakeOutput()) : a.TakeOutput());
  a.Receive(is_connectors ? b.TakeOutput() : alter(b.TakeOutput()));
  CHECK(b.Receive(a.TakeOutput()) == Verdict::kFailed);
  CHECK(absl::IsPermissionDenied(b.error()));
  CHECK(a.Receive(b.TakeOutput()) == Verdict::kFailed);
}

TEST_CASE("nothing that was altered by a bit passes") {
  Pair pair;
  const std::vector<std::string> said = Record(pair);
  const uint64_t seed = GENERATE(range(uint64_t{0}, uint64_t{600}));
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const size_t which = random() % said.size();
  std::string altered = said[which];
  altered[random() % altered.size()] ^= static_cast<char>(1 << random() % 8);
  Handshake a = pair.connector(), b = pair.acceptor();
  for (size_t i = 0; i < said.size(); ++i) {
    Handshake& to = i % 2 == 0 ? b : a;
    Handshake& from = i % 2 == 0 ? a : b;
    const std::string honest = from.TakeOutput();
    to.Receive(i == which ? altered : honest);
  }
  CHECK_FALSE((a.verdict() == Verdict::kProven && b.verdict() == Verdict::kProven));
}

TEST_CASE("no bytes whatever get a stranger in, nor much memory") {
  const uint64_t seed = GENERATE(range(uint64_t{0}, uint64_t{600}));
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  Pair pair;
  const std::vector<std::string> said = Record(pair);
  Handshake one = seed % 2 == 0 ? pair.acceptor() : pair.connector();
  for (int i = 0; i < 20 && one.verdict() == Verdict::kUnfinished; ++i) {
    std::string bytes;
    switch (random() % 4) {
      case 0:
        for (uint64_t left = random() % 300; left > 0; --left) bytes += static_cast<char>(random());
        break;
      case 1:
        bytes = said[random() % 2];
        break;
      case 2:
        bytes = EncodeFrame(static_cast<Frame::Type>(random() % 10), std::string(random() % 200, 'x'));
        break;
      case 3:
        bytes = std::string("\xFF\xFF\xFF\x7F\x04", 5);
        break;
    }
    one.Receive(bytes);
  }
  CHECK(one.verdict() != Verdict::kProven);
  CHECK(one.TakeOutput().size() < 1000);
}

TEST_CASE("frames survive being cut anywhere, and lengths are believed within limits only") {
  using Type = Frame::Type;
  const Frame frames[] = {{Type::kHeartbeat, ""},
                          {Type::kQuestion, std::string(9, '\1')},
                          {Type::kAnswer, std::string(9 + 4096, 'y')},
                          {Type::kPayload, std::string(65536, 'z')}};
  std::string bytes;
  for (const Frame& frame : frames) bytes += EncodeFrame(frame.type, frame.body);
  FrameDecoder decoder;
  std::mt19937_64 random(1);
  size_t found = 0;
  for (size_t at = 0; at < bytes.size();) {
    const size_t piece = 1 + random() % 5000;
    decoder.Append(std::string_view(bytes).substr(at, piece));
    at += piece;
    for (auto next = decoder.Next(FrameDecoder::Trust::kMember); next->has_value();
         next = decoder.Next(FrameDecoder::Trust::kMember)) {
      REQUIRE(found < std::size(frames));
      CHECK((**next == frames[found++]));
    }
  }
  CHECK(found == std::size(frames));
  CHECK(decoder.size() == 0);

  const auto refused = [](Type type, uint32_t length, FrameDecoder::Trust trust) {
    std::string header(reinterpret_cast<const char*>(&length), 4);
    FrameDecoder one;
    one.Append(header + static_cast<char>(type));
    return !one.Next(trust).ok();
  };
  using Trust = FrameDecoder::Trust;
  CHECK(refused(Type::kPayload, 65537, Trust::kMember));
  CHECK(refused(Type::kPayload, 5, Trust::kStranger));
  CHECK(refused(Type::kQuestion, 8, Trust::kMember));
  CHECK(refused(Type::kQuestion, 4096 + 10, Trust::kMember));
  CHECK(refused(Type::kHeartbeat, 1, Trust::kMember));
  CHECK(refused(Type::kHello, 0xFFFFFFFF, Trust::kStranger));
  CHECK(refused(static_cast<Type>(0), 0, Trust::kMember));
  CHECK(refused(static_cast<Type>(9), 0, Trust::kMember));
  CHECK_FALSE(refused(Type::kHello, 120, Trust::kStranger));
}

TEST_CASE("authentication matches published vectors") {
  // RFC 4231, test case 2; FIPS 180-2, "abc".
  const auto hex = [](const Digest& digest) {
    std::string text;
    for (const uint8_t byte : digest) {
      text += "0123456789abcdef"[byte >> 4];
      text += "0123456789abcdef"[byte & 15];
    }
    return text;
  };
  CHECK(hex(HmacSha256("Jefe", "what do ya want for nothing?")) ==
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  CHECK(hex(Sha256("abc")) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(*FreshNonce() != *FreshNonce());
}

}  // namespace
}  // namespace medley
