#include "comm/protected/protected_transport.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <random>

#include "comm/loopback/loopback_fabric.h"
#include "runtime/base/clock.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

using Message = std::vector<std::byte>;
constexpr MessageTag kTag{MessageTag::Kind::kActivation, 3, 9};
constexpr char kSecret[] = "sixteen bytes or more";

absl::Time Soon() { return Now() + absl::Seconds(20); }

Message RandomMessage(size_t size, uint64_t seed) {
  std::mt19937_64 random(seed);
  Message message(size);
  for (std::byte& byte : message) byte = static_cast<std::byte>(random());
  return message;
}

// Somebody on the way from this rank: sends what `meddle` makes of all that was sent so far, when it is told to deliver.
class Wiretap final : public Transport {
 public:
  explicit Wiretap(std::unique_ptr<Transport> inner) : inner_(std::move(inner)) {}
  struct Caught {
    int peer;
    MessageTag tag;
    Message bytes;
  };
  std::vector<Caught> caught;  // two a message: bytes, trailer
  absl::Status Deliver() {
    for (const Caught& one : caught) {
      ASSIGN_OR_RETURN(const auto sent, inner_->Send(one.peer, one.tag, one.bytes, MemoryType::kHost));
      RETURN_IF_ERROR(sent->Wait(Soon()));  // loopback has copied it
    }
    caught.clear();
    return absl::OkStatus();
  }

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  absl::StatusOr<std::unique_ptr<Transfer>> Send(int peer, MessageTag tag, absl::Span<const std::byte> bytes,
                                                 MemoryType) override {
    caught.push_back({peer, tag, Message(bytes.begin(), bytes.end())});
    return std::make_unique<Sent>();
  }
  absl::StatusOr<std::unique_ptr<Transfer>> Receive(int peer, MessageTag tag, absl::Span<std::byte> bytes,
                                                    MemoryType memory) override {
    return inner_->Receive(peer, tag, bytes, memory);
  }
  void Abort(const std::string& reason) override { inner_->Abort(reason); }
  void MarkGone(int peer, const std::string& why) override { inner_->MarkGone(peer, why); }
  bool SharesMemory(int) const override { return shares_memory; }
  bool shares_memory = false;

 private:
  struct Sent final : Transfer {
    absl::Status Wait(absl::Time) override { return absl::OkStatus(); }
    bool Done() override { return true; }
  };
  const std::unique_ptr<Transport> inner_;
};

// Two ranks; what rank 0 sends passes the tap.
struct Pair {
  explicit Pair(MessageProtection protection, const std::string& other_secret = kSecret, int size = 2)
      : fabric(size), tap(fabric.Join(0)), inner(fabric.Join(1)) {
    sender = *ProtectedTransport::Create(tap, {.protection = protection, .secret = kSecret, .attempt = 5});
    receiver =
        *ProtectedTransport::Create(*inner, {.protection = protection, .secret = other_secret, .attempt = 5});
  }
  void Send(const Message& message, MessageTag tag = kTag) {
    CHECK((*sender->Send(1, tag, message))->Wait(Soon()).ok());
  }
  absl::Status Receive(Message& into, MessageTag tag = kTag) {
    ASSIGN_OR_RETURN(const auto receive, receiver->Receive(0, tag, absl::MakeSpan(into)));
    const absl::Status status = receive->Wait(Soon());
    CHECK(receive->Done());
    CHECK(receive->Wait(absl::InfinitePast()) == status);  // repeats its answer
    return status;
  }

  LoopbackFabric fabric;
  Wiretap tap;
  std::unique_ptr<Transport> inner;
  std::unique_ptr<ProtectedTransport> sender, receiver;
};

void CheckLost(const absl::Status& status, const Message& got) {
  CAPTURE(status.ToString());
  CHECK(absl::IsDataLoss(status));
  CHECK_THAT(std::string(status.message()),
             Catch::Contains("rank 0") && Catch::Contains("activation channel 3 sequence 9"));
  CHECK(std::all_of(got.begin(), got.end(), [](std::byte b) { return b == std::byte{}; }));
}

#define BOTH_KINDS()                                                                                     \
  const MessageProtection kind = GENERATE(MessageProtection::kChecksum, MessageProtection::kEncryption); \
  CAPTURE(NameOf(kind))

TEST_CASE("what nobody meddles with arrives, and encrypted nobody on the way can read it") {
  BOTH_KINDS();
  Pair pair(kind);
  const Message message = RandomMessage(1000, 1);
  for (int i = 0; i < 3; ++i) {
    pair.Send(message);
    REQUIRE(pair.tap.caught.size() == 2);
    CHECK((pair.tap.caught[0].bytes == message) == (kind == MessageProtection::kChecksum));
    REQUIRE(pair.tap.Deliver().ok());
    Message got(1000);
    CHECK(pair.Receive(got).ok());
    CHECK(got == message);
  }
}

TEST_CASE("an altered message is lost, by name, and none of its bytes are handed on", "[property]") {
  BOTH_KINDS();
  const uint64_t seed = GENERATE(range(uint64_t{0}, uint64_t{50}));
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  Pair pair(kind);
  pair.Send(RandomMessage(1 + random() % 300, seed));
  Message got(pair.tap.caught[0].bytes.size(), std::byte{0x55});
  Message& part = pair.tap.caught[random() % 2].bytes;
  part[random() % part.size()] ^= std::byte{1} << (random() % 8);
  REQUIRE(pair.tap.Deliver().ok());
  CheckLost(pair.Receive(got), got);
}

TEST_CASE("a message that was cut or stretched is lost; one that was sent with another size is Internal") {
  BOTH_KINDS();
  Pair pair(kind);
  const size_t size = GENERATE(99, 101, 0);
  pair.Send(RandomMessage(100, 1));
  pair.tap.caught[0].bytes.resize(size);
  REQUIRE(pair.tap.Deliver().ok());
  Message got(100, std::byte{0x55});
  CheckLost(pair.Receive(got), got);
  pair.Send(RandomMessage(99, 1));
  REQUIRE(pair.tap.Deliver().ok());
  CHECK(absl::IsInternal(pair.Receive(got)));
}

TEST_CASE("a trailer that was cut is a lost message") {
  BOTH_KINDS();
  Pair pair(kind);
  pair.Send(RandomMessage(100, 1));
  pair.tap.caught[1].bytes.resize(8);
  REQUIRE(pair.tap.Deliver().ok());
  Message got(100, std::byte{0x55});
  CheckLost(pair.Receive(got), got);
}

TEST_CASE("a message that is replayed is lost, and so is one after another that was dropped") {
  BOTH_KINDS();
  const bool replay = GENERATE(true, false);
  Pair pair(kind);
  const Message first = RandomMessage(100, 1), second = RandomMessage(100, 2);
  pair.Send(first);
  pair.Send(second);
  auto& caught = pair.tap.caught;
  if (replay) {
    caught = {caught[0], caught[1], caught[0], caught[1]};
  } else {
    caught = {caught[2], caught[3]};
  }
  REQUIRE(pair.tap.Deliver().ok());
  Message got(100, std::byte{0x55});
  if (replay) {
    CHECK(pair.Receive(got).ok());
    CHECK(got == first);
  }
  CheckLost(pair.Receive(got), got);
}

TEST_CASE("messages of one tag that changed places are lost, whichever is looked at first") {
  BOTH_KINDS();
  const bool last_first = GENERATE(true, false);
  Pair pair(kind);
  pair.Send(RandomMessage(100, 1));
  pair.Send(RandomMessage(100, 2));
  std::swap(pair.tap.caught[0], pair.tap.caught[2]);
  std::swap(pair.tap.caught[1], pair.tap.caught[3]);
  REQUIRE(pair.tap.Deliver().ok());
  std::vector<Message> got(2, Message(100, std::byte{0x55}));
  std::vector<std::unique_ptr<Transfer>> receives;
  for (Message& into : got) receives.push_back(*pair.receiver->Receive(0, kTag, absl::MakeSpan(into)));
  for (const int i : last_first ? std::vector<int>{1, 0} : std::vector<int>{0, 1})
    CheckLost(receives[i]->Wait(Soon()), got[i]);
}

TEST_CASE("a message cannot be passed off as one of another tag") {
  BOTH_KINDS();
  Pair pair(kind);
  pair.Send(RandomMessage(100, 1), {MessageTag::Kind::kGradient, 3, 9});
  for (auto& caught : pair.tap.caught) caught.tag = kTag;
  REQUIRE(pair.tap.Deliver().ok());
  Message got(100, std::byte{0x55});
  CheckLost(pair.Receive(got), got);
}

TEST_CASE("messages of different tags may overtake each other") {
  BOTH_KINDS();
  Pair pair(kind);
  constexpr MessageTag kOther{MessageTag::Kind::kGradient, 0, 0};
  const Message first = RandomMessage(100, 1), second = RandomMessage(50, 2);
  pair.Send(first);
  pair.Send(second, kOther);
  std::rotate(pair.tap.caught.begin(), pair.tap.caught.begin() + 2, pair.tap.caught.end());
  REQUIRE(pair.tap.Deliver().ok());
  Message got(100), other(50);
  CHECK(pair.Receive(got).ok());
  CHECK(pair.Receive(other, kOther).ok());
  CHECK(got == first);
  CHECK(other == second);
}

TEST_CASE("what was sealed with another secret, or for another direction, is lost") {
  Pair pair(MessageProtection::kEncryption, "another secret of theirs");
  pair.Send(RandomMessage(100, 1));
  REQUIRE(pair.tap.Deliver().ok());
  Message got(100, std::byte{0x55});
  CheckLost(pair.Receive(got), got);

  Pair mirror(MessageProtection::kEncryption);
  // What rank 1 sent to rank 0, sent back to it by somebody on the way.
  const Message message = RandomMessage(100, 2);
  const auto sent = *mirror.receiver->Send(0, kTag, message);
  Message reflected(100), trailer(MessageSeal::TrailerBytes(MessageProtection::kEncryption));
  for (Message* part : {&reflected, &trailer})
    REQUIRE((*mirror.tap.Receive(1, kTag, absl::MakeSpan(*part), MemoryType::kHost))->Wait(Soon()).ok());
  mirror.tap.caught = {{1, kTag, reflected}, {1, kTag, trailer}};
  REQUIRE(mirror.tap.Deliver().ok());
  CheckLost(mirror.Receive(got), got);
}

TEST_CASE("a receive that went in the middle of its message ends the transport, not its bytes") {
  LoopbackFabric fabric(2);
  Wiretap tap(fabric.Join(0));
  const auto inner = fabric.Join(1);
  const auto sender = *ProtectedTransport::Create(tap, {.secret = kSecret});
  const auto receiver =
      *ProtectedTransport::Create(*inner, {.secret = kSecret, .cancel_grace = absl::Milliseconds(1)});
  const Message message = RandomMessage(100, 1);
  REQUIRE((*sender->Send(1, kTag, message))->Wait(Soon()).ok());
  tap.caught.pop_back();
  Message got(100);
  {
    const auto receive = *receiver->Receive(0, kTag, absl::MakeSpan(got));
    REQUIRE(tap.Deliver().ok());
    CHECK_FALSE(receive->Done());
    CHECK(absl::IsDeadlineExceeded(receive->Wait(absl::InfinitePast())));
  }
  const absl::Status over = (*receiver->Receive(0, kTag, absl::MakeSpan(got)))->Wait(Soon());
  CHECK(absl::IsCancelled(over));
  CHECK_THAT(std::string(over.message()), Catch::Contains("in the middle"));
}

TEST_CASE("messages through shared memory go as they are") {
  LoopbackFabric fabric(2);
  Wiretap tap(fabric.Join(0));
  tap.shares_memory = true;
  const auto sender = *ProtectedTransport::Create(tap, {.secret = kSecret});
  CHECK(sender->ProtectionWith(1) == MessageProtection::kNone);
  const Message message = RandomMessage(100, 1);
  REQUIRE((*sender->Send(1, kTag, message))->Wait(Soon()).ok());
  REQUIRE(tap.caught.size() == 1);
  CHECK(tap.caught[0].bytes == message);
}

TEST_CASE("encryption takes a secret that cannot be guessed, and its refusal does not repeat it") {
  LoopbackFabric fabric(1);
  const auto inner = fabric.Join(0);
  const absl::Status status = ProtectedTransport::Create(*inner, {.secret = "qqqqqqqqqqqqqqq"}).status();
  CHECK(absl::IsInvalidArgument(status));
  CHECK_THAT(std::string(status.message()), Catch::Contains("15 bytes") && !Catch::Contains("qq"));
  CHECK(ProtectedTransport::Create(*inner, {.protection = MessageProtection::kChecksum}).ok());
}

}  // namespace
}  // namespace medley
