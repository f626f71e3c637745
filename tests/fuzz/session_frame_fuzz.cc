// The stream of frames on a session's connection, from strangers and from members; and the frames' bodies.
#include "comm/session/frame.h"
#include "tests/fuzz/fuzz_target.h"

namespace medley {
namespace {

// First byte: trust. The rest: the stream.
struct Decoded {
  std::vector<Frame> frames;
  absl::Status status;
  size_t left = 0;
};

Decoded Decode(std::string_view stream, FrameDecoder::Trust trust, size_t piece) {
  Decoded decoded;
  FrameDecoder decoder;
  for (size_t at = 0; at < stream.size() && decoded.status.ok(); at += piece) {
    decoder.Append(stream.substr(at, piece));
    while (true) {
      absl::StatusOr<std::optional<Frame>> frame = decoder.Next(trust);
      decoded.status = frame.status();
      if (!frame.ok() || !frame->has_value()) break;
      decoded.frames.push_back(**std::move(frame));
    }
  }
  decoded.left = decoder.size();
  return decoded;
}

template <typename T>
bool Refused(const absl::StatusOr<T>& decoded) {
  if (decoded.ok()) return false;
  DemandRefusal(decoded.status());
  return true;
}

void TryBody(const Frame& frame) {
  if (const auto hello = DecodeHello(frame.body); !Refused(hello)) {
    Demand(EncodeHello(*hello) == frame.body, "an accepted hello is encoded as it came");
  }
  if (const auto refusal = DecodeRefusal(frame.body); !Refused(refusal)) {
    Demand(EncodeRefusal(*refusal) == frame.body, "an accepted refusal is encoded as it came");
  }
  if (const auto enquiry = DecodeEnquiry(frame.body); !Refused(enquiry)) {
    Demand(EncodeEnquiry(*enquiry) == frame.body, "an accepted enquiry is encoded as it came");
  }
}

}  // namespace

std::vector<std::string> FuzzSeeds() {
  using Type = Frame::Type;
  const std::string stranger(1, '\0'), member(1, '\1');
  const std::string hello = EncodeFrame(Type::kHello, EncodeHello({.attempt = 7, .from = 1, .to = 2}));
  const std::string proof = EncodeFrame(Type::kProof, std::string(32, 'p'));
  const std::string refusal =
      EncodeFrame(Type::kRefusal, EncodeRefusal({.reason = RefusalReason::kAttempt, .attempt = 9}));
  const std::string talk = EncodeFrame(Type::kPayload, "payload") + EncodeFrame(Type::kHeartbeat, "") +
                           EncodeFrame(Type::kQuestion, EncodeEnquiry({.id = 5, .text = "where?"})) +
                           EncodeFrame(Type::kAnswer, EncodeEnquiry({.id = 5, .understood = false})) +
                           EncodeFrame(Type::kGoodbye, "");
  return {stranger + hello + proof, stranger + refusal, member + talk, member + hello + proof + talk};
}

}  // namespace medley

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace medley;
  if (size == 0) return 0;
  const FrameDecoder::Trust trust =
      data[0] % 2 == 0 ? FrameDecoder::Trust::kStranger : FrameDecoder::Trust::kMember;
  const std::string_view stream = TextOf(data + 1, size - 1);
  const Decoded whole = Decode(stream, trust, stream.size());
  const Decoded cut = Decode(stream, trust, 1 + data[0] / 2 % 16);
  Demand(whole.frames == cut.frames, "frames do not depend on how the stream is cut");
  Demand(whole.status == cut.status, "errors do not depend on how the stream is cut");
  std::string again;
  for (const Frame& frame : whole.frames) {
    again += EncodeFrame(frame.type, frame.body);
    TryBody(frame);
  }
  Demand(stream.substr(0, again.size()) == again, "accepted frames are encoded as they came");
  if (!whole.status.ok()) {
    DemandRefusal(whole.status);
    return 0;
  }
  Demand(whole.left == stream.size() - again.size(), "what is not a frame yet is kept");
  if (!whole.frames.empty()) Accepted();
  return 0;
}
