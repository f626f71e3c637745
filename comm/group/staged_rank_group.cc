#include "comm/group/staged_rank_group.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "comm/collective/members.h"
#include "comm/collective/run_collective.h"
#include "runtime/base/narrow.h"
#include "runtime/base/short_turns.h"
#include "runtime/base/status_macros.h"
#include "runtime/ir/collective/all_reduce_schedule.h"

namespace medley {
namespace {

int64_t SizeOfBytes(const Slice& x) { return x.elements * SizeOf(x.dtype).value; }

}  // namespace

StagedRankGroup::StagedRankGroup(DeviceQueue& queue, Transport& transport, std::vector<int> members,
                                 uint16_t channel, Choice choice, Watch watch)
    : queue_(queue),
      transport_(transport),
      members_(std::move(members)),
      member_(PlaceOf(transport.rank(), members_)),
      channel_(channel),
      choice_(std::move(choice)),
      watch_(std::move(watch)) {}

StagedRankGroup::~StagedRankGroup() {
  if (!summing_.joinable()) return;
  {
    MutexLock lock(mutex_);
    ends_ = true;
    changed_.NotifyAll();
  }
  summing_.join();
}

absl::StatusOr<absl::Span<std::byte>> StagedRankGroup::FromDevice(const Slice& x) {
  absl::Span<std::byte> bytes;
  if (std::byte* const address = x.buffer->host_address(); address != nullptr) {
    bytes = {address + x.offset_bytes, static_cast<size_t>(SizeOfBytes(x))};
  } else {
    staged_.resize(std::max<size_t>(staged_.size(), SizeOfBytes(x)));
    bytes = absl::MakeSpan(staged_).subspan(0, SizeOfBytes(x));
    RETURN_IF_ERROR(queue_.Download(*x.buffer, {x.offset_bytes}, bytes));
  }
  RETURN_IF_ERROR(queue_.Wait(queue_.Record()));
  return bytes;
}

absl::Status StagedRankGroup::ToDevice(const Slice& x, absl::Span<const std::byte> bytes) {
  if (x.buffer->host_address() != nullptr) return absl::OkStatus();
  return queue_.Upload(bytes, *x.buffer, {x.offset_bytes});
}

absl::Status StagedRankGroup::Sum(const Slice& x) {
  ASSIGN_OR_RETURN(const absl::Span<std::byte> bytes, FromDevice(x));
  RETURN_IF_ERROR(WaitForPeers([&] { return SumOnHost(bytes, x.dtype); }));
  return ToDevice(x, bytes);
}

absl::Status StagedRankGroup::BeginSum(const Slice& x) {
  if (lane_ == nullptr && x.buffer->host_address() == nullptr) {
    ASSIGN_OR_RETURN(lane_, queue_.OpenCopyLane());
  }
  const Fence after = queue_.Record();
  MutexLock lock(mutex_);
  begun_ = BegunSum{.x = x, .after = after};
  if (!summing_.joinable()) summing_ = std::thread([this] { MakeBegunSums(); });
  changed_.NotifyAll();
  return absl::OkStatus();
}

absl::Status StagedRankGroup::EndSum() {
  std::optional<BegunSum> done;
  {
    MutexLock lock(mutex_);
    using State = BegunSum::State;
    const auto await = [&](State least) {
      changed_.WaitUntil(mutex_, absl::InfiniteFuture(), [&] { return begun_->state >= least; });
    };
    await(State::kTravels);
    if (begun_->state == State::kTravels) {
      watch_.waits_for_peers(true);
      await(State::kDone);
      watch_.waits_for_peers(false);
    }
    done = std::exchange(begun_, std::nullopt);
  }
  RETURN_IF_ERROR(done->status);
  return done->arrives.has_value() ? queue_.AwaitLane(*lane_, *done->arrives) : absl::OkStatus();
}

void StagedRankGroup::MakeBegunSums() {
  AskForShortTurns();
  using State = BegunSum::State;
  while (true) {
    BegunSum sum;
    {
      MutexLock lock(mutex_);
      changed_.WaitUntil(mutex_, absl::InfiniteFuture(), [&] {
        return ends_ || (begun_.has_value() && begun_->state == State::kAwaitsDevice);
      });
      if (ends_) return;
      sum = *begun_;
    }
    const absl::StatusOr<std::optional<Fence>> arrives = MakeSum(sum.x, sum.after);
    MutexLock lock(mutex_);
    begun_->state = State::kDone;
    begun_->status = arrives.status();
    if (arrives.ok()) begun_->arrives = *arrives;
    changed_.NotifyAll();
  }
}

absl::StatusOr<std::optional<Fence>> StagedRankGroup::MakeSum(const Slice& x, Fence after) {
  const size_t size = SizeOfBytes(x);
  std::byte* const address = x.buffer->host_address();
  absl::Span<std::byte> bytes;
  if (address != nullptr) {
    RETURN_IF_ERROR(queue_.Wait(after));
    bytes = {address + x.offset_bytes, size};
  } else {
    if (pinned_ == nullptr || pinned_->bytes().size() < size) {
      pinned_.reset();
      ASSIGN_OR_RETURN(pinned_, lane_->AllocatePinned({static_cast<int64_t>(size)}));
    }
    bytes = pinned_->bytes().subspan(0, size);
    RETURN_IF_ERROR(lane_->AwaitQueue(after));
    RETURN_IF_ERROR(lane_->Download(*x.buffer, {x.offset_bytes}, bytes));
    RETURN_IF_ERROR(lane_->Wait(lane_->Record()));
  }
  {
    MutexLock lock(mutex_);
    begun_->state = BegunSum::State::kTravels;
    changed_.NotifyAll();
  }
  RETURN_IF_ERROR(SumOnHost(bytes, x.dtype));
  if (address != nullptr) return std::nullopt;
  RETURN_IF_ERROR(lane_->Upload(bytes, *x.buffer, {x.offset_bytes}));
  return lane_->Record();
}

absl::Status StagedRankGroup::WaitForPeers(absl::FunctionRef<absl::Status()> waiting) {
  watch_.waits_for_peers(true);
  const absl::Status status = waiting();
  watch_.waits_for_peers(false);
  return status;
}

absl::Status StagedRankGroup::SumOnHost(absl::Span<std::byte> bytes, Dtype dtype) {
  const size_t elements = bytes.size() / SizeOf(dtype).value;
  if (dtype == Dtype::kF32) return SumFloats({reinterpret_cast<float*>(bytes.data()), elements}, dtype);
  uint16_t* const narrow = reinterpret_cast<uint16_t*>(bytes.data());
  wide_.resize(std::max(wide_.size(), elements));
  for (size_t i = 0; i < elements; ++i) wide_[i] = FromNarrow(narrow[i], dtype);
  RETURN_IF_ERROR(SumFloats(absl::MakeSpan(wide_).subspan(0, elements), dtype));
  for (size_t i = 0; i < elements; ++i) narrow[i] = ToNarrow(wide_[i], dtype);
  return absl::OkStatus();
}

absl::Status StagedRankGroup::SumFloats(absl::Span<float> values, Dtype stored) {
  const int64_t elements = static_cast<int64_t>(values.size());
  auto schedule = schedules_.find(elements);
  if (schedule == schedules_.end()) {
    ASSIGN_OR_RETURN(CollectiveSchedule made,
                     AllReduceSchedule(members(), elements, choice_(elements), member_));
    schedule = schedules_.emplace(elements, std::move(made)).first;
  }
  return RunCollective(transport_, schedule->second, members_, channel_, values,
                       stored == Dtype::kBf16 ? WireType::kBf16 : WireType::kF32, watch_.deadline());
}

absl::Span<std::byte> StagedRankGroup::Parts::of(int m) const {
  const int64_t first = m == 0 ? 0 : ends[m - 1];
  return bytes.subspan(first * element_bytes, (ends[m] - first) * element_bytes);
}

absl::Status StagedRankGroup::Gather(const Slice& x, absl::Span<const int64_t> ends) {
  ASSIGN_OR_RETURN(const absl::Span<std::byte> bytes, FromDevice(x));
  const Parts parts{bytes, ends, SizeOf(x.dtype).value};
  RETURN_IF_ERROR(
      ExchangeWithEach([&](int m) { return parts.of(m); }, [&](int) { return parts.of(member_); }));
  return ToDevice(x, bytes);
}

absl::Status StagedRankGroup::Scatter(const Slice& x, absl::Span<const int64_t> ends) {
  ASSIGN_OR_RETURN(const absl::Span<std::byte> bytes, FromDevice(x));
  const Parts parts{bytes, ends, SizeOf(x.dtype).value};
  const absl::Span<std::byte> own = parts.of(member_);
  received_.resize(std::max(received_.size(), members() * own.size()));
  const auto from = [&](int m) { return absl::MakeSpan(received_).subspan(m * own.size(), own.size()); };
  RETURN_IF_ERROR(ExchangeWithEach(from, [&](int m) { return parts.of(m); }));
  std::copy(own.begin(), own.end(), from(member_).begin());
  AddReceived(own, x.dtype);
  const int64_t first = member_ == 0 ? 0 : ends[member_ - 1];
  return ToDevice(x.Sub(first, ends[member_] - first), own);
}

void StagedRankGroup::AddReceived(absl::Span<std::byte> own, Dtype dtype) {
  const size_t elements = own.size() / SizeOf(dtype).value;
  wide_.resize(std::max(wide_.size(), elements));
  for (int m = 0; m < members(); ++m) {
    const std::byte* const part = received_.data() + m * own.size();
    for (size_t i = 0; i < elements; ++i) {
      const float value = dtype == Dtype::kF32
                              ? reinterpret_cast<const float*>(part)[i]
                              : FromNarrow(reinterpret_cast<const uint16_t*>(part)[i], dtype);
      wide_[i] = m == 0 ? value : wide_[i] + value;
    }
  }
  for (size_t i = 0; i < elements; ++i) {
    if (dtype == Dtype::kF32) {
      reinterpret_cast<float*>(own.data())[i] = wide_[i];
    } else {
      reinterpret_cast<uint16_t*>(own.data())[i] = ToNarrow(wide_[i], dtype);
    }
  }
}

absl::Status StagedRankGroup::ExchangeWithEach(absl::FunctionRef<absl::Span<std::byte>(int m)> to,
                                               absl::FunctionRef<absl::Span<std::byte>(int m)> from) {
  const MessageTag tag = {.kind = MessageTag::Kind::kReshard, .channel = channel_};
  return WaitForPeers([&]() -> absl::Status {
    std::vector<std::unique_ptr<Transfer>> transfers;
    for (int m = 0; m < members(); ++m) {
      if (m == member_ || to(m).empty()) continue;
      ASSIGN_OR_RETURN(transfers.emplace_back(), transport_.Receive(members_[m], tag, to(m)));
    }
    for (int m = 0; m < members(); ++m) {
      if (m == member_ || from(m).empty()) continue;
      ASSIGN_OR_RETURN(transfers.emplace_back(), transport_.Send(members_[m], tag, from(m)));
    }
    const absl::Time deadline = watch_.deadline();
    for (const std::unique_ptr<Transfer>& transfer : transfers) RETURN_IF_ERROR(transfer->Wait(deadline));
    return absl::OkStatus();
  });
}

}  // namespace medley
