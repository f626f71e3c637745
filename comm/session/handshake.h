#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "comm/session/authentication.h"
#include "comm/session/frame.h"

namespace medley {

// How the two ends of a fresh connection prove to each other that they belong to one attempt. Pure: bytes in,
// bytes out.
//
//   connector                         acceptor
//     hello  ------------------------->           who, to whom, a challenge, digests of payload and address
//            <------------------------- hello     (or a refusal)
//     proof  ------------------------->           first: a stranger gets no proof out of a listener
//            <------------------------- proof, payload
//     payload ------------------------>
class Handshake {
 public:
  // This rank. Must outlive its handshakes.
  struct Self {
    uint64_t attempt = 0;
    int rank = 0;
    int size = 1;
    std::string secret;
    std::string payload;
    Digest address = {};                                                 // of its session address
    std::function<bool(int rank)> is_peer = [](int) { return true; };    // of ranks below `size`
    std::function<bool(int rank)> is_taken = [](int) { return false; };  // connected already, or gone
  };
  enum class Verdict { kUnfinished, kProven, kFailed };

  // The end that connects to `peer`, whose session address has the digest `peer_address`. Each takes a nonce
  // of its own.
  static Handshake OfConnector(const Self& self, const Nonce& nonce, int peer, const Digest& peer_address);
  // The end that somebody has connected to.
  static Handshake OfAcceptor(const Self& self, const Nonce& nonce);

  // What the other end sent. After kFailed nothing is read any more; what TakeOutput still gives is to be
  // sent.
  Verdict Receive(std::string_view bytes);
  std::string TakeOutput() { return std::exchange(output_, {}); }
  Verdict verdict() const { return verdict_; }

  // Why the verdict is kFailed, for the connector's user:
  //   PermissionDenied  one of the two did not prove itself, or is of another attempt.
  //   NotFound          this is not the one that was sought, but another rank, or another incarnation of it.
  //   AlreadyExists     the other has, or had, a connection to this rank.
  //   InvalidArgument   the other does not speak this protocol.
  const absl::Status& error() const { return error_; }

  // What is known once the verdict is kProven: who the peer is, the digest of its session address, its
  // payload, and what it has said since.
  int peer() const { return peer_; }
  const Digest& peer_address() const { return theirs_.address; }
  std::string TakePayload() { return std::move(payload_); }
  FrameDecoder TakeDecoder() { return std::move(decoder_); }

 private:
  Handshake(const Self& self, Role role, const Nonce& nonce);

  absl::Status Read(const Frame& frame);
  absl::Status ReadHello(const Introduction& hello);
  absl::Status ReadProof(const Digest& proof);
  void SayProof();
  absl::Status Refuse(Refusal refusal, absl::Status why);
  absl::Status Refused(const Refusal& refusal) const;
  Digest ProofOf(Role role) const;
  void Say(Frame::Type type, std::string_view body) { output_ += EncodeFrame(type, body); }

  const Self* self_;
  Role role_;
  int peer_ = -1;
  Digest expected_address_ = {};  // the connector's, of its peer
  Introduction ours_, theirs_;
  Frame::Type awaited_ = Frame::Type::kHello;
  FrameDecoder::Trust trust_ = FrameDecoder::Trust::kStranger;
  FrameDecoder decoder_;
  std::string output_, payload_;
  Verdict verdict_ = Verdict::kUnfinished;
  absl::Status error_;
};

}  // namespace medley
