#include "comm/session/frame.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "comm/session/session.h"

namespace medley {
namespace {

// Little-endian, like every machine that this runs on.
constexpr uint32_t kMagic = 0x484C4D01;  // another version of this protocol has another
constexpr size_t kHeaderBytes = sizeof(uint32_t) + sizeof(Frame::Type);
struct WireHello {
  uint32_t magic, from, to, reserved;
  uint64_t attempt;
  Nonce nonce;
  Digest payload, address;
};
static_assert(sizeof(WireHello) == 120);
constexpr size_t kRefusalBytes = sizeof(RefusalReason) + sizeof(uint64_t);
constexpr size_t kEnquiryHeaderBytes = sizeof(uint64_t) + 1;

struct Sizes {
  size_t least = 0, most = 0;
  bool of_strangers = false;
};

std::optional<Sizes> SizesOf(Frame::Type type) {
  switch (type) {
    case Frame::Type::kHello:
      return Sizes{sizeof(WireHello), sizeof(WireHello), true};
    case Frame::Type::kProof:
      return Sizes{sizeof(Digest), sizeof(Digest), true};
    case Frame::Type::kRefusal:
      return Sizes{kRefusalBytes, kRefusalBytes, true};
    case Frame::Type::kPayload:
      return Sizes{0, kMaximumPayloadBytes, false};
    case Frame::Type::kHeartbeat:
      return Sizes{0, 0, false};
    case Frame::Type::kQuestion:
    case Frame::Type::kAnswer:
      return Sizes{kEnquiryHeaderBytes, kEnquiryHeaderBytes + kMaximumQuestionBytes, false};
    case Frame::Type::kGoodbye:
      return Sizes{0, kMaximumReasonBytes, false};
  }
  return std::nullopt;
}

absl::Status Malformed(const std::string& why) { return absl::InvalidArgumentError(why); }

}  // namespace

std::string EncodeFrame(Frame::Type type, std::string_view body) {
  const uint32_t length = static_cast<uint32_t>(body.size());
  std::string bytes(reinterpret_cast<const char*>(&length), sizeof(length));
  bytes.push_back(static_cast<char>(type));
  bytes.append(body);
  return bytes;
}

absl::StatusOr<std::optional<Frame>> FrameDecoder::Next(Trust trust) {
  if (bytes_.size() < kHeaderBytes) return std::optional<Frame>();
  uint32_t length = 0;
  std::memcpy(&length, bytes_.data(), sizeof(length));
  const auto type = static_cast<Frame::Type>(bytes_[sizeof(length)]);
  const std::optional<Sizes> sizes = SizesOf(type);
  if (!sizes)
    return Malformed(absl::StrCat("a frame is of type ", static_cast<int>(type), ", which there is not"));
  if (trust == Trust::kStranger && !sizes->of_strangers) {
    return Malformed(absl::StrCat("a frame of type ", static_cast<int>(type), " comes before any proof"));
  }
  if (length < sizes->least || length > sizes->most) {
    return Malformed(absl::StrCat("a frame of type ", static_cast<int>(type), " has ", length, " bytes, not ",
                                  sizes->least, " to ", sizes->most));
  }
  if (bytes_.size() < kHeaderBytes + length) return std::optional<Frame>();
  Frame frame{type, bytes_.substr(kHeaderBytes, length)};
  bytes_.erase(0, kHeaderBytes + length);
  return std::optional<Frame>(std::move(frame));
}

std::string EncodeHello(const Introduction& said) {
  const WireHello wire{kMagic,       said.from,  said.to,      /*reserved=*/0,
                       said.attempt, said.nonce, said.payload, said.address};
  return std::string(reinterpret_cast<const char*>(&wire), sizeof(wire));
}

absl::StatusOr<Introduction> DecodeHello(std::string_view body) {
  WireHello wire;
  if (body.size() != sizeof(wire)) return Malformed(absl::StrCat("a hello has ", body.size(), " bytes"));
  std::memcpy(&wire, body.data(), sizeof(wire));
  if (wire.magic != kMagic) return Malformed("a hello of another protocol, or of another version of it");
  if (wire.reserved != 0) return Malformed("a hello sets a reserved field");
  return Introduction{wire.attempt, wire.from, wire.to, wire.nonce, wire.payload, wire.address};
}

std::string EncodeRefusal(const Refusal& refusal) {
  std::string body(1, static_cast<char>(refusal.reason));
  body.append(reinterpret_cast<const char*>(&refusal.attempt), sizeof(refusal.attempt));
  return body;
}

absl::StatusOr<Refusal> DecodeRefusal(std::string_view body) {
  if (body.size() != kRefusalBytes) return Malformed(absl::StrCat("a refusal has ", body.size(), " bytes"));
  if (body[0] < 1 || body[0] > 4) return Malformed("a refusal for an unknown reason");
  Refusal refusal{static_cast<RefusalReason>(body[0])};
  std::memcpy(&refusal.attempt, body.data() + 1, sizeof(refusal.attempt));
  return refusal;
}

std::string EncodeEnquiry(const Enquiry& enquiry) {
  std::string body(reinterpret_cast<const char*>(&enquiry.id), sizeof(enquiry.id));
  body.push_back(enquiry.understood ? 1 : 0);
  body.append(enquiry.text);
  return body;
}

absl::StatusOr<Enquiry> DecodeEnquiry(std::string_view body) {
  if (body.size() < kEnquiryHeaderBytes || body.size() > kEnquiryHeaderBytes + kMaximumQuestionBytes) {
    return Malformed(absl::StrCat("a question or answer has ", body.size(), " bytes"));
  }
  Enquiry enquiry;
  std::memcpy(&enquiry.id, body.data(), sizeof(enquiry.id));
  const char understood = body[sizeof(enquiry.id)];
  if (understood != 0 && understood != 1) return Malformed("an answer is neither understood nor not");
  enquiry.understood = understood == 1;
  enquiry.text = std::string(body.substr(kEnquiryHeaderBytes));
  return enquiry;
}

}  // namespace medley
