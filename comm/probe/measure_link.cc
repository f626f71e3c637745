#include "comm/probe/measure_link.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "comm/collective/ring_all_reduce.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

constexpr size_t kMessageBytes = size_t{4} << 20;
constexpr size_t kAllReduceFloats = (size_t{8} << 20) / sizeof(float);
constexpr uint16_t kRingChannel = 0xFFFF;

// What the leader wants next; the follower obeys, so that the two need not agree on numbers or on clocks.
enum class Order : uint64_t { kEcho = 1, kTakeMessage = 2, kAllReduce = 3, kStop = 4 };

// How often a thing is measured: while it is within both bounds, but thrice at least.
struct Effort {
  int most;
  absl::Duration longest;
};

class Prober {
 public:
  Prober(Transport& transport, int peer, absl::Time deadline)
      : transport_(transport),
        peer_(peer),
        deadline_(deadline),
        message_(kMessageBytes),
        vector_(kAllReduceFloats) {}

  absl::StatusOr<LinkMeasurement> Lead() {
    RETURN_IF_ERROR(Greet(ProbeRole::kLeader));
    LinkMeasurement result;
    ASSIGN_OR_RETURN(const double round_trip, Median({300, absl::Milliseconds(50)}, Order::kEcho));
    ASSIGN_OR_RETURN(const double transfer, Median({7, absl::Milliseconds(100)}, Order::kTakeMessage));
    ASSIGN_OR_RETURN(const double all_reduce, Median({5, absl::Milliseconds(150)}, Order::kAllReduce));
    result.latency_seconds = round_trip / 2;
    // The order to take it and the answer travel too. Where they weigh as much as the message, noise must not
    // win.
    result.bandwidth_bytes_per_second = kMessageBytes / std::max(transfer - round_trip, transfer / 4);
    result.all_reduce_bytes_per_second = kAllReduceFloats * sizeof(float) / all_reduce;
    RETURN_IF_ERROR(Tell(Order::kStop));
    RETURN_IF_ERROR(Send(absl::MakeSpan(reinterpret_cast<const std::byte*>(&result), sizeof(result))));
    return result;
  }

  absl::StatusOr<LinkMeasurement> Follow() {
    RETURN_IF_ERROR(Greet(ProbeRole::kFollower));
    while (true) {
      Order order;
      RETURN_IF_ERROR(ReceiveOne(order));
      if (order == Order::kStop) break;
      if (order == Order::kTakeMessage) RETURN_IF_ERROR(Receive(absl::MakeSpan(message_)));
      if (order != Order::kAllReduce) {
        RETURN_IF_ERROR(Tell(order));
      } else {
        RETURN_IF_ERROR(AllReduce());
      }
    }
    LinkMeasurement result;
    RETURN_IF_ERROR(ReceiveOne(result));
    return result;
  }

 private:
  MessageTag Tag() const { return {MessageTag::Kind::kProbe, 0, 0}; }

  absl::Status Send(absl::Span<const std::byte> bytes) {
    ASSIGN_OR_RETURN(const std::unique_ptr<Transfer> transfer, transport_.Send(peer_, Tag(), bytes));
    return transfer->Wait(deadline_);
  }
  absl::Status Receive(absl::Span<std::byte> bytes) {
    ASSIGN_OR_RETURN(const std::unique_ptr<Transfer> transfer, transport_.Receive(peer_, Tag(), bytes));
    return transfer->Wait(deadline_);
  }
  template <typename T>
  absl::Status ReceiveOne(T& into) {
    return Receive(absl::MakeSpan(reinterpret_cast<std::byte*>(&into), sizeof(into)));
  }
  absl::Status Tell(Order order) {
    return Send(absl::MakeSpan(reinterpret_cast<const std::byte*>(&order), sizeof(order)));
  }
  absl::Status AllReduce() {
    const std::vector<int> members = {std::min(peer_, transport_.rank()), std::max(peer_, transport_.rank())};
    return RingAllReduce(transport_, members, kRingChannel, absl::MakeSpan(vector_), deadline_);
  }

  // Both send their role first, lest two followers wait for each other until the deadline.
  absl::Status Greet(ProbeRole role) {
    const uint64_t own = static_cast<uint64_t>(role);
    uint64_t other = own;
    ASSIGN_OR_RETURN(const std::unique_ptr<Transfer> sent,
                     transport_.Send(peer_, Tag(), {reinterpret_cast<const std::byte*>(&own), sizeof(own)}));
    RETURN_IF_ERROR(ReceiveOne(other));
    RETURN_IF_ERROR(sent->Wait(deadline_));
    if (own != other) return absl::OkStatus();
    return absl::FailedPreconditionError(
        absl::StrCat("ranks ", transport_.rank(), " and ", peer_, " both probe as ",
                     role == ProbeRole::kLeader ? "leader" : "follower"));
  }

  // One measurement, as the leader sees it.
  absl::Status Once(Order order) {
    RETURN_IF_ERROR(Tell(order));
    if (order == Order::kAllReduce) return AllReduce();
    if (order == Order::kTakeMessage) RETURN_IF_ERROR(Send(message_));
    Order answer;
    return ReceiveOne(answer);
  }

  absl::StatusOr<double> Median(Effort effort, Order order) {
    std::vector<double> seconds;
    const absl::Time end = absl::Now() + effort.longest;
    RETURN_IF_ERROR(Once(order));  // the first pays for connections and page faults
    for (int i = 0; i < effort.most && (i < 3 || absl::Now() < end); ++i) {
      const absl::Time begin = absl::Now();
      RETURN_IF_ERROR(Once(order));
      seconds.push_back(absl::ToDoubleSeconds(absl::Now() - begin));
    }
    std::nth_element(seconds.begin(), seconds.begin() + seconds.size() / 2, seconds.end());
    return std::max(seconds[seconds.size() / 2], 1e-9);  // the clock may have been set
  }

  Transport& transport_;
  const int peer_;
  const absl::Time deadline_;
  std::vector<std::byte> message_;
  std::vector<float> vector_;
};

}  // namespace

absl::StatusOr<LinkMeasurement> MeasureLink(Transport& transport, int peer, ProbeRole role,
                                            absl::Time deadline) {
  Prober prober(transport, peer, deadline);
  return role == ProbeRole::kLeader ? prober.Lead() : prober.Follow();
}

}  // namespace medley
