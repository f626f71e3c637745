#include "comm/probe/link_prober.h"

#include <algorithm>
#include <chrono>
#include <memory>

#include "absl/strings/str_cat.h"
#include "comm/collective/all_reduce.h"
#include "comm/transport/message_tag.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

constexpr MessageTag kOrders = {MessageTag::Kind::kProbe, 0, 0};
constexpr MessageTag kMessages = {MessageTag::Kind::kProbe, 1, 0};
constexpr MessageTag kTexts = {MessageTag::Kind::kProbe, 2, 0};
constexpr uint16_t kRingChannel = kMaximumChannels - 1;
// What a leader may ask for; a follower holds four times as much.
constexpr uint64_t kMostBytes = uint64_t{1} << 30;

using Clock = std::chrono::steady_clock;

template <typename T>
absl::Span<const std::byte> BytesOf(const T& value) {
  return {reinterpret_cast<const std::byte*>(&value), sizeof(value)};
}
template <typename T>
absl::Span<std::byte> WritableBytesOf(T& value) {
  return {reinterpret_cast<std::byte*>(&value), sizeof(value)};
}

}  // namespace

LinkProber::LinkProber(Transport& transport, int peer, absl::Time deadline)
    : transport_(transport), peer_(peer), deadline_(deadline) {}

// Both send their role first, lest two followers wait for each other until the deadline.
absl::Status LinkProber::Greet(ProbeRole role) {
  const uint64_t own = static_cast<uint64_t>(role);
  uint64_t other = own;
  ASSIGN_OR_RETURN(const std::unique_ptr<Transfer> sent, transport_.Send(peer_, kOrders, BytesOf(own)));
  RETURN_IF_ERROR(Receive(WritableBytesOf(other)));
  RETURN_IF_ERROR(sent->Wait(deadline_));
  if (own != other) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("ranks ", transport_.rank(), " and ", peer_,
                                                    " both probe as ",
                                                    role == ProbeRole::kLeader ? "leader" : "follower"));
}

absl::StatusOr<std::vector<double>> LinkProber::TransferSeconds(size_t bytes, int repetitions) {
  return Lead({Kind::kTransfer, bytes, static_cast<uint64_t>(repetitions)});
}

absl::StatusOr<std::vector<double>> LinkProber::ExchangeSeconds(size_t bytes, int repetitions) {
  return Lead({Kind::kExchange, bytes, static_cast<uint64_t>(repetitions)});
}

absl::Status LinkProber::Stop() { return Send(BytesOf(Order{})); }

absl::StatusOr<std::vector<double>> LinkProber::Lead(const Order& order) {
  RETURN_IF_ERROR(Send(BytesOf(order)));
  std::vector<double> seconds;
  for (uint64_t i = 0; i < order.times; ++i) {
    const Clock::time_point begin = Clock::now();
    RETURN_IF_ERROR(order.kind == Kind::kTransfer ? EchoOnce(ProbeRole::kLeader, order.bytes)
                                                  : ExchangeOnce(order.bytes));
    // A transfer there and back, an all-reduce of two rounds.
    seconds.push_back(std::chrono::duration<double>(Clock::now() - begin).count() / 2);
  }
  return seconds;
}

absl::Status LinkProber::Follow() {
  while (true) {
    Order order;
    RETURN_IF_ERROR(Receive(WritableBytesOf(order)));
    if (order.kind == Kind::kStop) return absl::OkStatus();
    RETURN_IF_ERROR(Obey(order));
  }
}

absl::Status LinkProber::Obey(const Order& order) {
  if ((order.kind != Kind::kTransfer && order.kind != Kind::kExchange) || order.bytes > kMostBytes) {
    return absl::InvalidArgumentError(absl::StrCat("rank ", peer_, " wants a probe of kind ",
                                                   static_cast<uint64_t>(order.kind), " with ", order.bytes,
                                                   " bytes; at most ", kMostBytes, " are possible"));
  }
  for (uint64_t i = 0; i < order.times; ++i) {
    RETURN_IF_ERROR(order.kind == Kind::kTransfer ? EchoOnce(ProbeRole::kFollower, order.bytes)
                                                  : ExchangeOnce(order.bytes));
  }
  return absl::OkStatus();
}

absl::Status LinkProber::EchoOnce(ProbeRole role, size_t bytes) {
  if (outgoing_.size() < bytes) outgoing_.resize(bytes);
  if (incoming_.size() < bytes) incoming_.resize(bytes);
  ASSIGN_OR_RETURN(const std::unique_ptr<Transfer> receive,
                   transport_.Receive(peer_, kMessages, absl::MakeSpan(incoming_).first(bytes)));
  if (role == ProbeRole::kFollower) RETURN_IF_ERROR(receive->Wait(deadline_));
  ASSIGN_OR_RETURN(const std::unique_ptr<Transfer> send,
                   transport_.Send(peer_, kMessages, absl::MakeConstSpan(outgoing_).first(bytes)));
  RETURN_IF_ERROR(receive->Wait(deadline_));
  return send->Wait(deadline_);
}

absl::Status LinkProber::ExchangeOnce(size_t bytes) {
  const size_t floats = 2 * bytes / sizeof(float);
  if (vector_.size() < floats) vector_.resize(floats);
  const std::vector<int> members = {std::min(peer_, transport_.rank()), std::max(peer_, transport_.rank())};
  return AllReduce(transport_, {.members = members, .channel = kRingChannel, .deadline = deadline_},
                   /*choice=*/{}, absl::MakeSpan(vector_).first(floats));
}

absl::Status LinkProber::Send(absl::Span<const std::byte> message) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Transfer> transfer, transport_.Send(peer_, kOrders, message));
  return transfer->Wait(deadline_);
}

absl::Status LinkProber::Receive(absl::Span<std::byte> message) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Transfer> transfer, transport_.Receive(peer_, kOrders, message));
  return transfer->Wait(deadline_);
}

absl::StatusOr<std::string> ExchangeText(Transport& transport, int peer, const std::string& text,
                                         absl::Time deadline) {
  struct Wire {
    uint64_t length = 0;
    char bytes[kMostProbeText] = {};
  };
  Wire own, other;
  own.length = std::min(text.size(), kMostProbeText);
  std::copy_n(text.data(), own.length, own.bytes);
  ASSIGN_OR_RETURN(const std::unique_ptr<Transfer> receive,
                   transport.Receive(peer, kTexts, WritableBytesOf(other)));
  ASSIGN_OR_RETURN(const std::unique_ptr<Transfer> send, transport.Send(peer, kTexts, BytesOf(own)));
  RETURN_IF_ERROR(receive->Wait(deadline));
  RETURN_IF_ERROR(send->Wait(deadline));
  return std::string(other.bytes, std::min<uint64_t>(other.length, kMostProbeText));
}

}  // namespace medley
