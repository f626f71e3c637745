#include "comm/session/session_loop.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "comm/session/wire_ids.h"
#include "comm/transport/peer_set.h"
#include "runtime/base/status_macros.h"

namespace medley {

SessionLoop::SessionLoop(const Session::Options& options, const std::string& address,
                         std::vector<Descriptor> listeners)
    : options_(options),
      is_peer_(*PeerSet(options.peers, options.rank, options.size)),
      listeners_(std::move(listeners)),
      members_(options.size),
      last_wire_(kFirstWire) {
  self_.attempt = options.attempt;
  self_.rank = options.rank;
  self_.size = options.size;
  self_.secret = options.secret;
  self_.payload = options.payload;
  self_.address = Sha256(address);
  self_.is_peer = [this](int rank) { return IsPeer(rank); };
  self_.is_taken = [this](int rank) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return members_[rank].state != Member::State::kAbsent;
  };
  members_[options.rank].payload = options.payload;
}

absl::StatusOr<std::unique_ptr<SessionLoop>> SessionLoop::Start(const Session::Options& options,
                                                                const std::string& address,
                                                                std::vector<Descriptor> listeners) {
  RETURN_IF_ERROR(FreshNonce().status());  // so that there are some later
  std::unique_ptr<SessionLoop> loop(new SessionLoop(options, address, std::move(listeners)));
  RETURN_IF_ERROR(loop->Open());
  loop->thread_ = std::thread([raw = loop.get()] { raw->Run(); });
  return loop;
}

absl::Status SessionLoop::Open() {
  epoll_ = Descriptor(epoll_create1(EPOLL_CLOEXEC));
  wake_ = Descriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  epoll_event event = {};
  event.events = EPOLLIN;
  event.data.u64 = kWakeId;
  if (epoll_.get() < 0 || wake_.get() < 0 ||
      epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, wake_.get(), &event) != 0) {
    return absl::UnavailableError(absl::StrCat("a session's descriptors: ", std::strerror(errno)));
  }
  MutexLock lock(mutex_);
  Listen(true);
  return absl::OkStatus();
}

SessionLoop::~SessionLoop() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    Wake();
  }
  if (thread_.joinable()) thread_.join();
}

void SessionLoop::Wake() {
  const uint64_t one = 1;
  (void)!write(wake_.get(), &one, sizeof(one));
}

absl::Status SessionLoop::Connect(const std::vector<Peer>& peers, absl::Time deadline) {
  MutexLock lock(mutex_);
  if (phase_ != Phase::kListening)
    return absl::FailedPreconditionError("the session was connected, or closed, before");
  phase_ = Phase::kConnecting;
  peers_ = peers;
  for (int rank = 0; rank < options_.size; ++rank) {
    if (!IsPeer(rank)) continue;
    if (rank < options_.rank) dialers_.emplace(rank, Dialer(rank, peers[rank].endpoints));
    CheckAddress(rank);
    if (members_[rank].state == Member::State::kGone) {
      FailConnect(absl::UnavailableError(
          absl::StrCat("rank ", rank, " went before it was connected: ", members_[rank].why)));
    }
  }
  CheckConnected();
  next_tick_ = absl::ZeroDuration();
  Wake();
  changed_.WaitUntil(mutex_, deadline,
                     [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return phase_ != Phase::kConnecting; });
  if (phase_ == Phase::kConnecting) FailConnect(absl::DeadlineExceededError(DescribeMissing()));
  if (phase_ == Phase::kClosing)
    return absl::FailedPreconditionError("the session was closed while it connected");
  return connect_error_;
}

std::string SessionLoop::DescribeMissing() {
  std::vector<int> missing;
  std::vector<std::string> reasons;
  for (int rank = 0; rank < options_.size; ++rank) {
    if (!IsPeer(rank) || members_[rank].state != Member::State::kAbsent) continue;
    missing.push_back(rank);
    const auto dialer = dialers_.find(rank);
    if (dialer == dialers_.end() || dialer->second.last_failure().empty() || reasons.size() == 3) continue;
    reasons.push_back(absl::StrCat("rank ", rank, ": ", dialer->second.last_failure()));
  }
  return absl::StrCat("rank ", absl::StrJoin(missing, ", "), " not connected at the deadline",
                      reasons.empty() ? "" : absl::StrCat(" (", absl::StrJoin(reasons, "; "), ")"));
}

const std::string& SessionLoop::payload(int rank) const ABSL_NO_THREAD_SAFETY_ANALYSIS {
  return members_[rank].payload;  // does not change once connected
}

void SessionLoop::OnGone(Session::GoneCallback callback) {
  MutexLock lock(mutex_);
  on_gone_ = std::move(callback);
}

void SessionLoop::OnQuestion(std::function<std::string(int, const std::string&)> callback) {
  MutexLock lock(mutex_);
  on_question_ = std::move(callback);
}

absl::StatusOr<uint64_t> SessionLoop::BeginQuestion(int rank, const std::string& question) {
  RETURN_IF_ERROR(CheckPeer("rank", rank, options_.rank, options_.size, IsPeer(rank)));
  if (phase_ == Phase::kClosing) return absl::UnavailableError("this session is closed");
  if (phase_ != Phase::kConnected) return absl::FailedPreconditionError("the session is not connected");
  const Member& member = members_[rank];
  if (member.state == Member::State::kGone) {
    return absl::UnavailableError(absl::StrCat("rank ", rank, " is gone: ", member.why));
  }
  const uint64_t id = open_questions_.Begin(rank);
  Say(member.wire, Frame::Type::kQuestion, EncodeEnquiry({.id = id, .text = question}));
  return id;
}

std::vector<absl::StatusOr<std::string>> SessionLoop::AskAll(const std::vector<int>& ranks,
                                                             const std::string& question,
                                                             absl::Time deadline) {
  MutexLock lock(mutex_);
  std::vector<absl::StatusOr<uint64_t>> ids;
  for (const int rank : ranks) ids.push_back(BeginQuestion(rank, question));
  Wake();
  changed_.WaitUntil(mutex_, deadline, [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return std::all_of(ids.begin(), ids.end(),
                       [&](const absl::StatusOr<uint64_t>& id) ABSL_NO_THREAD_SAFETY_ANALYSIS {
                         return !id.ok() || open_questions_.IsAnswered(*id);
                       });
  });
  std::vector<absl::StatusOr<std::string>> answers;
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (!ids[i].ok()) {
      answers.push_back(ids[i].status());
      continue;
    }
    std::optional<absl::StatusOr<std::string>> answer = open_questions_.End(*ids[i]);
    answers.push_back(answer ? *std::move(answer)
                             : absl::DeadlineExceededError(absl::StrCat(
                                   "rank ", ranks[i], " has not answered a question at the deadline")));
  }
  return answers;
}

void SessionLoop::Close(absl::Time deadline, const std::string& failure) {
  {
    MutexLock lock(mutex_);
    if (phase_ == Phase::kClosing) return;
    phase_ = Phase::kClosing;
    dialers_.clear();
    notices_.clear();
    Listen(false);
    open_questions_.Fail(std::nullopt, absl::UnavailableError("this session is closed"));
    std::erase_if(wires_, [](const auto& entry) { return entry.second.stage != Wire::Stage::kMember; });
    strangers_ = 0;
    for (const auto& [id, wire] : wires_)
      Say(id, Frame::Type::kGoodbye, failure.substr(0, kMaximumReasonBytes));
    changed_.NotifyAll();
    Wake();
    // Each peer answers a goodbye by disconnecting.
    changed_.WaitUntil(mutex_, deadline, [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return wires_.empty(); });
    stopping_ = true;
    Wake();
  }
  thread_.join();
  MutexLock lock(mutex_);
  wires_.clear();
  listeners_.clear();
}

}  // namespace medley
