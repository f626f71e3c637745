// Both ends of a session's handshake, against whatever the other end says: nobody gets through but who knows
// the secret.
#include <algorithm>

#include "comm/session/handshake.h"
#include "tests/fuzz/fuzz_target.h"

namespace medley {
namespace {

Nonce NonceOf(uint8_t byte) {
  Nonce nonce;
  nonce.fill(byte);
  return nonce;
}

// Rank 2 connects to rank 1, always with the same nonces, so that one transcript is right for ever.
struct Ends {
  Ends() {
    acceptor.rank = 1;
    connector.rank = 2;
    for (Handshake::Self* self : {&acceptor, &connector}) {
      self->attempt = 7;
      self->size = 3;
      self->secret = "a secret of the attempt";
      self->payload = "payload of " + std::to_string(self->rank);
      self->address = Sha256("address of " + std::to_string(self->rank));
    }
  }
  Handshake Make(Role role) const {
    if (role == Role::kAcceptor) return Handshake::OfAcceptor(acceptor, NonceOf(1));
    return Handshake::OfConnector(connector, NonceOf(2), acceptor.rank, acceptor.address);
  }
  Handshake::Self acceptor, connector;
};

const Ends& TheEnds() {
  static const Ends* const ends = new Ends();
  return *ends;
}

// What each end hears when all is well.
struct Transcripts {
  std::string acceptor, connector;
};

Transcripts GenuineTranscripts() {
  Handshake acceptor = TheEnds().Make(Role::kAcceptor), connector = TheEnds().Make(Role::kConnector);
  Transcripts heard;
  for (int round = 0; round < 8; ++round) {
    const std::string to_acceptor = connector.TakeOutput();
    heard.acceptor += to_acceptor;
    acceptor.Receive(to_acceptor);
    const std::string to_connector = acceptor.TakeOutput();
    heard.connector += to_connector;
    connector.Receive(to_connector);
  }
  Demand(
      acceptor.verdict() == Handshake::Verdict::kProven && connector.verdict() == Handshake::Verdict::kProven,
      "two members prove themselves");
  return heard;
}

}  // namespace

std::vector<std::string> FuzzSeeds() {
  const Transcripts heard = GenuineTranscripts();
  const std::string refusal =
      EncodeFrame(Frame::Type::kRefusal, EncodeRefusal({.reason = RefusalReason::kAttempt, .attempt = 9}));
  return {'\0' + heard.acceptor, '\1' + heard.connector, '\0' + heard.acceptor + "and more"};
}

}  // namespace medley

// First byte: role, and how the stream is cut.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace medley;
  using Verdict = Handshake::Verdict;
  static const Transcripts* const kGenuine = new Transcripts(GenuineTranscripts());
  if (size == 0) return 0;
  const Role role = data[0] % 2 == 0 ? Role::kAcceptor : Role::kConnector;
  const std::string_view heard = TextOf(data + 1, size - 1);
  Handshake whole = TheEnds().Make(role), cut = TheEnds().Make(role);
  whole.Receive(heard);
  const size_t piece = 1 + data[0] / 2 % 50;
  std::string said = cut.TakeOutput();
  for (size_t at = 0; at < heard.size(); at += piece) {
    const Verdict before = cut.verdict();
    // Once it is proven, bytes belong to the session.
    if (before == Verdict::kProven) break;
    cut.Receive(heard.substr(at, piece));
    said += cut.TakeOutput();
    Demand(before != Verdict::kFailed || cut.verdict() == Verdict::kFailed, "a failure is final");
  }
  Demand(whole.verdict() == cut.verdict(), "the verdict does not depend on how the stream is cut");
  Demand(whole.error() == cut.error(), "the error does not depend on how the stream is cut");
  Demand(whole.TakeOutput() == said, "what is said does not depend on how the stream is cut");
  const std::string& genuine = role == Role::kAcceptor ? kGenuine->acceptor : kGenuine->connector;
  const bool is_genuine = heard.substr(0, genuine.size()) == genuine;
  Demand((whole.verdict() == Verdict::kProven) == is_genuine,
         "only who says what the secret allows gets through");
  if (whole.verdict() == Verdict::kFailed) DemandRefusal(whole.error());
  if (whole.verdict() == Verdict::kProven) Accepted();
  return 0;
}
