#include <utility>

#include "absl/strings/str_cat.h"
#include "comm/session/interfaces.h"
#include "comm/session/session.h"
#include "comm/session/session_address.h"
#include "comm/session/session_loop.h"
#include "comm/transport/message_tag.h"
#include "comm/transport/peer_set.h"
#include "comm/ucx/host_identity.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

absl::Status Check(const Session::Options& options) {
  const auto refuse = [](const auto&... parts) { return absl::InvalidArgumentError(absl::StrCat(parts...)); };
  if (options.size < 1 || options.size > kMaximumRanks) {
    return refuse("size is ", options.size, ", not in [1, ", kMaximumRanks, "]");
  }
  if (options.rank < 0 || options.rank >= options.size) {
    return refuse("rank is ", options.rank, ", not in [0, ", options.size, ")");
  }
  if ((options.size > 1 && options.secret.size() < kMinimumSecretBytes) || options.secret.size() > 1024) {
    return refuse("secret has ", options.secret.size(), " bytes, not ", kMinimumSecretBytes, " to 1024");
  }
  if (options.payload.size() > kMaximumPayloadBytes) {
    return refuse("payload has ", options.payload.size(), " bytes, more than ", kMaximumPayloadBytes);
  }
  RETURN_IF_ERROR(PeerSet(options.peers, options.rank, options.size).status());
  const struct {
    const char* name;
    absl::Duration value;
  } durations[] = {{"heartbeat", options.heartbeat},
                   {"silence_limit", options.silence_limit},
                   {"handshake_limit", options.handshake_limit}};
  for (const auto& [name, value] : durations) {
    if (value < absl::Milliseconds(10) || value > absl::Hours(1)) {
      return refuse(name, " is ", absl::FormatDuration(value), ", not in [10ms, 1h]");
    }
  }
  if (options.silence_limit <= options.heartbeat) {
    return refuse("silence_limit is ", absl::FormatDuration(options.silence_limit),
                  ", not more than heartbeat, ", absl::FormatDuration(options.heartbeat));
  }
  return absl::OkStatus();
}

class TcpSession final : public Session {
 public:
  TcpSession(const Options& options, std::string host, std::string address, std::unique_ptr<SessionLoop> loop)
      : attempt_(options.attempt),
        size_(options.size),
        host_(std::move(host)),
        address_(std::move(address)),
        loop_(std::move(loop)) {}

  const std::string& address() const override { return address_; }

  absl::Status Connect(const std::vector<std::string>& addresses_by_rank, absl::Time deadline) override {
    if (addresses_by_rank.size() != static_cast<size_t>(size_)) {
      return absl::InvalidArgumentError(
          absl::StrCat(addresses_by_rank.size(), " addresses for ", size_, " ranks"));
    }
    std::vector<SessionLoop::Peer> peers(size_);  // all are read before the first is used
    for (int rank = 0; rank < size_; ++rank) {
      if (!loop_->IsPeer(rank)) continue;
      absl::StatusOr<SessionAddress> address = DecodeSessionAddress(addresses_by_rank[rank]);
      if (!address.ok()) return Annotate(address.status(), absl::StrCat("rank ", rank));
      if (address->rank != rank || address->attempt != attempt_) {
        return absl::InvalidArgumentError(absl::StrCat("rank ", rank, ": the address is of rank ",
                                                       address->rank, " in attempt ", address->attempt,
                                                       ", not of rank ", rank, " in attempt ", attempt_));
      }
      peers[rank] = {EndpointsToTry(*address, host_), Sha256(addresses_by_rank[rank])};
    }
    return loop_->Connect(peers, deadline);
  }

  const std::string& payload(int rank) const override { return loop_->payload(rank); }
  void OnGone(GoneCallback callback) override { loop_->OnGone(std::move(callback)); }
  void OnQuestion(std::function<std::string(int, const std::string&)> callback) override {
    loop_->OnQuestion(std::move(callback));
  }

  std::vector<absl::StatusOr<std::string>> AskAll(const std::vector<int>& ranks, const std::string& question,
                                                  absl::Time deadline) override {
    if (question.size() <= kMaximumQuestionBytes) return loop_->AskAll(ranks, question, deadline);
    const absl::Status refused = absl::InvalidArgumentError(
        absl::StrCat("question has ", question.size(), " bytes, more than ", kMaximumQuestionBytes));
    return std::vector<absl::StatusOr<std::string>>(ranks.size(), refused);
  }

  void Close(absl::Time deadline, const std::string& failure) override { loop_->Close(deadline, failure); }
  uint64_t refused() const override { return loop_->refused(); }

 private:
  const uint64_t attempt_;
  const int size_;
  const std::string host_, address_;
  const std::unique_ptr<SessionLoop> loop_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Session>> Session::Listen(const Options& options) {
  RETURN_IF_ERROR(Check(options));
  if (options.size == 1) {
    ASSIGN_OR_RETURN(std::unique_ptr<SessionLoop> loop,
                     SessionLoop::Start(options, /*address=*/"", /*listeners=*/{}));
    return std::unique_ptr<Session>(std::make_unique<TcpSession>(options, "", "", std::move(loop)));
  }
  ASSIGN_OR_RETURN(const std::vector<InterfaceAddress> interfaces, ReadInterfaces());
  SessionAddress address{options.attempt, options.rank, HostIdentity()};
  ASSIGN_OR_RETURN(address.endpoints, SelectEndpoints(interfaces, options.network_devices));
  std::vector<Descriptor> listeners;
  absl::Status failed;
  std::erase_if(address.endpoints, [&](Endpoint& endpoint) {
    absl::StatusOr<Descriptor> listener = ListenOn(endpoint);
    // An IPv6 address that has just come up cannot be listened on yet; the others will do.
    if (listener.ok())
      listeners.push_back(*std::move(listener));
    else
      failed = listener.status();
    return !listener.ok();
  });
  if (listeners.empty()) return failed;
  std::string encoded = EncodeSessionAddress(address);
  ASSIGN_OR_RETURN(std::unique_ptr<SessionLoop> loop,
                   SessionLoop::Start(options, encoded, std::move(listeners)));
  return std::unique_ptr<Session>(
      std::make_unique<TcpSession>(options, address.host, std::move(encoded), std::move(loop)));
}

}  // namespace medley
