#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "comm/session/authentication.h"

namespace medley {

// What is said over a session's connection: a length (u32, of the body), a type (u8), the body.
struct Frame {
  enum class Type : uint8_t {
    kHello = 1,      // Introduction, opens the connection in both directions
    kProof = 2,      // Digest
    kRefusal = 3,    // Refusal, in place of anything; then the connection is closed
    kPayload = 4,    // the payload whose digest the hello gave
    kHeartbeat = 5,  // empty
    kQuestion = 6,   // Enquiry
    kAnswer = 7,     // Enquiry
    kGoodbye = 8,    // empty: the sender has finished; else why it gives up, at most kMaximumReasonBytes
  };
  Type type = Type::kHeartbeat;
  std::string body;

  bool operator==(const Frame&) const = default;
};

// Cuts a stream of bytes into frames. Pure; holds at most one incomplete frame and what was appended.
class FrameDecoder {
 public:
  // From whom the bytes come: strangers may say only what proves them, so that they can fill no memory.
  enum class Trust { kStranger, kMember };

  void Append(std::string_view bytes) { bytes_.append(bytes); }
  // The next frame; nothing while it is incomplete. InvalidArgument, from then on: an unknown type, a length
  // that no such frame has, or a type that such a peer may not send; known from the first five bytes on.
  absl::StatusOr<std::optional<Frame>> Next(Trust trust);
  // Bytes held.
  size_t size() const { return bytes_.size(); }

 private:
  std::string bytes_;
};

std::string EncodeFrame(Frame::Type type, std::string_view body);

// Bodies. Decoders: InvalidArgument if the bytes are none.
std::string EncodeHello(const Introduction& introduction);
absl::StatusOr<Introduction> DecodeHello(std::string_view body);

enum class RefusalReason : uint8_t {
  kAttempt = 1,    // runs another attempt
  kRank = 2,       // is not the rank that was sought, or has none that would connect
  kProof = 3,      // does not believe the proof
  kConnected = 4,  // is, or was, connected to that rank
};
struct Refusal {
  RefusalReason reason = RefusalReason::kProof;
  uint64_t attempt = 0;  // of the one who refuses; of kAttempt only
};
std::string EncodeRefusal(const Refusal& refusal);
absl::StatusOr<Refusal> DecodeRefusal(std::string_view body);

struct Enquiry {
  uint64_t id = 0;         // an answer has its question's
  bool understood = true;  // of an answer: there is somebody who answers
  std::string text;        // at most kMaximumQuestionBytes
};
std::string EncodeEnquiry(const Enquiry& enquiry);
absl::StatusOr<Enquiry> DecodeEnquiry(std::string_view body);

}  // namespace medley
