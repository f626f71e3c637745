#include "comm/group/staged_rank_group.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "comm/collective/run_collective.h"
#include "runtime/base/narrow.h"
#include "runtime/base/status_macros.h"
#include "runtime/ir/collective/all_reduce_schedule.h"

namespace medley {
namespace {

int PlaceOf(int rank, const std::vector<int>& members) {
  return static_cast<int>(std::find(members.begin(), members.end(), rank) - members.begin());
}

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
  if (x.dtype == Dtype::kF32) {
    RETURN_IF_ERROR(
        SumFloats({reinterpret_cast<float*>(bytes.data()), static_cast<size_t>(x.elements)}, x.dtype));
    return ToDevice(x, bytes);
  }
  uint16_t* const narrow = reinterpret_cast<uint16_t*>(bytes.data());
  wide_.resize(std::max<size_t>(wide_.size(), x.elements));
  for (int64_t i = 0; i < x.elements; ++i) wide_[i] = FromNarrow(narrow[i], x.dtype);
  RETURN_IF_ERROR(SumFloats(absl::MakeSpan(wide_).subspan(0, x.elements), x.dtype));
  for (int64_t i = 0; i < x.elements; ++i) narrow[i] = ToNarrow(wide_[i], x.dtype);
  return ToDevice(x, bytes);
}

absl::Status StagedRankGroup::SumFloats(absl::Span<float> values, Dtype stored) {
  const int64_t elements = static_cast<int64_t>(values.size());
  auto schedule = schedules_.find(elements);
  if (schedule == schedules_.end()) {
    ASSIGN_OR_RETURN(CollectiveSchedule made, AllReduceSchedule(members(), elements, choice_(elements)));
    schedule = schedules_.emplace(elements, std::move(made)).first;
  }
  watch_.waits_for_peers(true);
  const absl::Status summed =
      RunCollective(transport_, schedule->second, members_, channel_, values,
                    stored == Dtype::kBf16 ? WireType::kBf16 : WireType::kF32, watch_.deadline());
  watch_.waits_for_peers(false);
  return summed;
}

absl::Status StagedRankGroup::Gather(const Slice& x, absl::Span<const int64_t> ends) {
  ASSIGN_OR_RETURN(const absl::Span<std::byte> bytes, FromDevice(x));
  watch_.waits_for_peers(true);
  const absl::Status gathered = GatherBytes(bytes, ends, SizeOf(x.dtype).value);
  watch_.waits_for_peers(false);
  RETURN_IF_ERROR(gathered);
  return ToDevice(x, bytes);
}

absl::Status StagedRankGroup::GatherBytes(absl::Span<std::byte> bytes, absl::Span<const int64_t> ends,
                                          int64_t element_bytes) {
  const auto part = [&](int m) {
    const int64_t first = m == 0 ? 0 : ends[m - 1];
    return bytes.subspan(first * element_bytes, (ends[m] - first) * element_bytes);
  };
  const MessageTag tag = {.kind = MessageTag::Kind::kReshard, .channel = channel_};
  std::vector<std::unique_ptr<Transfer>> transfers;
  for (int m = 0; m < members(); ++m) {
    if (m == member_ || part(m).empty()) continue;
    ASSIGN_OR_RETURN(transfers.emplace_back(), transport_.Receive(members_[m], tag, part(m)));
  }
  for (int m = 0; m < members(); ++m) {
    if (m == member_ || part(member_).empty()) continue;
    ASSIGN_OR_RETURN(transfers.emplace_back(), transport_.Send(members_[m], tag, part(member_)));
  }
  const absl::Time deadline = watch_.deadline();
  for (const std::unique_ptr<Transfer>& transfer : transfers) RETURN_IF_ERROR(transfer->Wait(deadline));
  return absl::OkStatus();
}

}  // namespace medley
