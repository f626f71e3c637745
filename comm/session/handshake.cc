#include "comm/session/handshake.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"

namespace medley {

Handshake::Handshake(const Self& self, Role role, const Nonce& nonce) : self_(&self), role_(role) {
  ours_.attempt = self.attempt;
  ours_.from = static_cast<uint32_t>(self.rank);
  ours_.nonce = nonce;
  ours_.payload = Sha256(self.payload);
  ours_.address = self.address;
}

Handshake Handshake::OfConnector(const Self& self, const Nonce& nonce, int peer, const Digest& peer_address) {
  Handshake made(self, Role::kConnector, nonce);
  made.peer_ = peer;
  made.expected_address_ = peer_address;
  made.ours_.to = static_cast<uint32_t>(peer);
  made.Say(Frame::Type::kHello, EncodeHello(made.ours_));
  return made;
}

Handshake Handshake::OfAcceptor(const Self& self, const Nonce& nonce) {
  return Handshake(self, Role::kAcceptor, nonce);
}

Handshake::Verdict Handshake::Receive(std::string_view bytes) {
  if (verdict_ == Verdict::kFailed) return verdict_;
  decoder_.Append(bytes);
  while (verdict_ == Verdict::kUnfinished) {
    absl::StatusOr<std::optional<Frame>> frame = decoder_.Next(trust_);
    if (frame.ok() && !frame->has_value()) break;
    error_ = frame.ok() ? Read(**frame) : frame.status();
    if (!error_.ok()) verdict_ = Verdict::kFailed;
  }
  return verdict_;
}

absl::Status Handshake::Read(const Frame& frame) {
  if (frame.type == Frame::Type::kRefusal && role_ == Role::kConnector) {
    ASSIGN_OR_RETURN(const Refusal refusal, DecodeRefusal(frame.body));
    return Refused(refusal);
  }
  if (frame.type != awaited_) {
    return absl::InvalidArgumentError(absl::StrCat("a frame of type ", static_cast<int>(frame.type),
                                                   " in place of one of type ", static_cast<int>(awaited_)));
  }
  if (frame.type == Frame::Type::kHello) {
    ASSIGN_OR_RETURN(const Introduction hello, DecodeHello(frame.body));
    return ReadHello(hello);
  }
  if (frame.type == Frame::Type::kProof) {
    Digest proof;
    std::copy(frame.body.begin(), frame.body.end(), proof.begin());  // of this size, as the decoder has it
    return ReadProof(proof);
  }
  if (Sha256(frame.body) != theirs_.payload) {
    return absl::PermissionDeniedError(
        absl::StrCat("rank ", peer_, " gave another payload than it had announced"));
  }
  payload_ = frame.body;
  verdict_ = Verdict::kProven;
  return absl::OkStatus();
}

absl::Status Handshake::ReadHello(const Introduction& hello) {
  theirs_ = hello;
  if (role_ == Role::kAcceptor) {
    if (hello.attempt != self_->attempt) {
      return Refuse({RefusalReason::kAttempt, self_->attempt},
                    absl::PermissionDeniedError(
                        absl::StrCat("a member of attempt ", hello.attempt, ", not ", self_->attempt)));
    }
    const bool may_connect = hello.from < static_cast<uint32_t>(self_->size) && hello.from > ours_.from &&
                             self_->is_peer(static_cast<int>(hello.from));
    if (hello.to != ours_.from || !may_connect) {
      return Refuse({RefusalReason::kRank},
                    absl::NotFoundError(absl::StrCat("rank ", hello.from, " seeks rank ", hello.to)));
    }
    peer_ = static_cast<int>(hello.from);
    ours_.to = hello.from;
    Say(Frame::Type::kHello, EncodeHello(ours_));
  } else {
    if (hello.attempt != self_->attempt) return Refused({RefusalReason::kAttempt, hello.attempt});
    if (hello.from != ours_.to || hello.to != ours_.from || hello.address != expected_address_) {
      return Refused({RefusalReason::kRank});
    }
    SayProof();
  }
  awaited_ = Frame::Type::kProof;
  return absl::OkStatus();
}

absl::Status Handshake::ReadProof(const Digest& proof) {
  const Role other = role_ == Role::kConnector ? Role::kAcceptor : Role::kConnector;
  if (!EqualInConstantTime(proof, ProofOf(other))) {
    const absl::Status why = absl::PermissionDeniedError(
        absl::StrCat("rank ", peer_, " could not prove that it belongs to attempt ", self_->attempt));
    return role_ == Role::kAcceptor ? Refuse({RefusalReason::kProof}, why) : why;
  }
  trust_ = FrameDecoder::Trust::kMember;
  if (role_ == Role::kAcceptor) {
    if (self_->is_taken(peer_)) {
      return Refuse({RefusalReason::kConnected},
                    absl::AlreadyExistsError(absl::StrCat("rank ", peer_, " connects again")));
    }
    SayProof();
  }
  Say(Frame::Type::kPayload, self_->payload);
  awaited_ = Frame::Type::kPayload;
  return absl::OkStatus();
}

void Handshake::SayProof() {
  const Digest proof = ProofOf(role_);
  Say(Frame::Type::kProof, {reinterpret_cast<const char*>(proof.data()), proof.size()});
}

absl::Status Handshake::Refuse(Refusal refusal, absl::Status why) {
  Say(Frame::Type::kRefusal, EncodeRefusal(refusal));
  return why;
}

absl::Status Handshake::Refused(const Refusal& refusal) const {
  switch (refusal.reason) {
    case RefusalReason::kAttempt:
      return absl::PermissionDeniedError(absl::StrCat("rank ", peer_, " refused: it runs attempt ",
                                                      refusal.attempt, ", not ", self_->attempt));
    case RefusalReason::kRank:
      return absl::NotFoundError(absl::StrCat("somebody else than rank ", peer_, " answered"));
    case RefusalReason::kProof:
      return absl::PermissionDeniedError(
          absl::StrCat("rank ", peer_, " refused: it has another secret for attempt ", self_->attempt));
    case RefusalReason::kConnected:
      return absl::AlreadyExistsError(
          absl::StrCat("rank ", peer_, " refused: it was connected to this rank before"));
  }
  return absl::InternalError("no such reason");
}

Digest Handshake::ProofOf(Role role) const {
  return role_ == Role::kConnector ? Proof(self_->secret, role, ours_, theirs_)
                                   : Proof(self_->secret, role, theirs_, ours_);
}

}  // namespace medley
