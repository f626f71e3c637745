#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "comm/session/session_loop.h"
#include "comm/session/uptime.h"
#include "runtime/base/status_macros.h"

namespace medley {

void SessionLoop::Admit(uint64_t id) {
  Wire& wire = wires_.at(id);
  const int rank = wire.handshake->peer();
  Member& member = members_[rank];
  if (member.state != Member::State::kAbsent) {
    return Break(id, absl::AlreadyExistsError(absl::StrCat("rank ", rank, " is connected already")));
  }
  if (!wire.is_ours) --strangers_;
  wire.stage = Wire::Stage::kMember;
  wire.rank = rank;
  wire.heard_at = Uptime();
  wire.decoder = wire.handshake->TakeDecoder();
  member.state = Member::State::kConnected;
  member.wire = id;
  member.payload = wire.handshake->TakePayload();
  member.address = wire.handshake->peer_address();
  wire.handshake.reset();
  ++connected_;
  Flush(id);
  CheckAddress(rank);
  CheckConnected();
  if (wires_.count(id) > 0) ReadFrames(id);
}

void SessionLoop::ReadFrames(uint64_t id) {
  Wire& wire = wires_.at(id);
  while (true) {
    const absl::StatusOr<std::optional<Frame>> frame = wire.decoder.Next(FrameDecoder::Trust::kMember);
    if (!frame.ok()) return Break(id, Annotate(frame.status(), "it sent nonsense"));
    if (!frame->has_value()) return;
    const Frame::Type type = (*frame)->type;
    if (type == Frame::Type::kHeartbeat) continue;
    if (type == Frame::Type::kGoodbye) {
      const std::string& failure = (*frame)->body;
      return MarkGone(wire.rank, /*left=*/failure.empty(),
                      failure.empty() ? "closed" : "it gave up: " + failure);
    }
    const bool is_question = type == Frame::Type::kQuestion;
    if (!is_question && type != Frame::Type::kAnswer) {
      return Break(id, absl::InvalidArgumentError("it sent nonsense: a handshake after the handshake"));
    }
    absl::StatusOr<Enquiry> enquiry = DecodeEnquiry((*frame)->body);
    if (!enquiry.ok()) return Break(id, Annotate(enquiry.status(), "it sent nonsense"));
    if (is_question) {
      questions_.push_back({wire.rank, *std::move(enquiry)});
    } else {
      open_questions_.Answer(wire.rank, *std::move(enquiry));
      changed_.NotifyAll();
    }
  }
}

void SessionLoop::Say(uint64_t id, Frame::Type type, std::string_view body) {
  wires_.at(id).out += EncodeFrame(type, body);
  unsent_.push_back(id);
}

void SessionLoop::MarkGone(int rank, bool left, const std::string& why) {
  Member& member = members_[rank];
  member.state = Member::State::kGone;
  member.why = why;
  wires_.erase(member.wire);
  open_questions_.Fail(rank, absl::UnavailableError(absl::StrCat("rank ", rank, " is gone: ", why)));
  if (phase_ == Phase::kConnected) notices_.push_back({rank, left, why});
  if (phase_ == Phase::kConnecting) {
    FailConnect(
        absl::UnavailableError(absl::StrCat("rank ", rank, " went while this rank connected: ", why)));
  }
  changed_.NotifyAll();
}

void SessionLoop::CheckAddress(int rank) {
  if (phase_ != Phase::kConnecting || members_[rank].state != Member::State::kConnected) return;
  if (members_[rank].address == peers_[rank].address) return;
  FailConnect(absl::InvalidArgumentError(
      absl::StrCat("rank ", rank, " has another address than the one given for it")));
}

void SessionLoop::CheckConnected() {
  if (phase_ != Phase::kConnecting || connected_ < std::count(is_peer_.begin(), is_peer_.end(), true)) return;
  phase_ = Phase::kConnected;
  changed_.NotifyAll();
}

void SessionLoop::FailConnect(const absl::Status& why) {
  if (phase_ != Phase::kConnecting) return;
  phase_ = Phase::kFailed;
  connect_error_ = why;
  changed_.NotifyAll();
}

}  // namespace medley
