#include "comm/group/library_rank_group.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "comm/collective/gone_watch.h"
#include "comm/collective/members.h"
#include "comm/group/patience.h"
#include "runtime/base/clock.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

constexpr absl::Duration kBetweenLooks = absl::Milliseconds(1);

}  // namespace

LibraryRankGroup::LibraryRankGroup(std::unique_ptr<DeviceGroup> group, DeviceQueue& queue,
                                   Transport& transport, std::vector<int> members, uint16_t channel,
                                   std::function<absl::Time()> deadline)
    : queue_(queue),
      transport_(transport),
      members_(std::move(members)),
      member_(PlaceOf(transport.rank(), members_)),
      channel_(channel),
      deadline_(std::move(deadline)),
      group_(std::move(group)),
      looking_([this] { Look(); }) {}

LibraryRankGroup::~LibraryRankGroup() {
  {
    MutexLock lock(mutex_);
    ends_ = true;
    changed_.NotifyAll();
  }
  looking_.join();
}

absl::Status LibraryRankGroup::Sum(const Slice& x) {
  return Submit([&](DeviceGroup& group, Fence after) { return group.Sum(x, after); });
}

absl::Status LibraryRankGroup::BeginSum(const Slice& x) {
  return Begin([&](DeviceGroup& group, Fence after) { return group.Sum(x, after); });
}

absl::Status LibraryRankGroup::Gather(const Slice& x, absl::Span<const int64_t> ends) {
  return Submit([&](DeviceGroup& group, Fence after) { return group.Gather(x, ends, after); });
}

absl::Status LibraryRankGroup::Scatter(const Slice& x, absl::Span<const int64_t> ends) {
  return Submit([&](DeviceGroup& group, Fence after) { return group.Scatter(x, ends, after); });
}

absl::Status LibraryRankGroup::Submit(
    absl::FunctionRef<absl::Status(DeviceGroup& group, Fence after)> exchange) {
  RETURN_IF_ERROR(Begin(exchange));
  return FollowExchange();
}

absl::Status LibraryRankGroup::Begin(
    absl::FunctionRef<absl::Status(DeviceGroup& group, Fence after)> exchange) {
  const absl::Time must_end_at = deadline_();
  const Fence after = queue_.Record();
  MutexLock lock(mutex_);
  RETURN_IF_ERROR(error_);
  if (const absl::Status submitted = exchange(*group_, after); !submitted.ok()) return Fail(submitted);
  if (!under_way_) changed_.NotifyAll();
  under_way_ = true;
  must_end_at_ = must_end_at;
  return absl::OkStatus();
}

absl::Status LibraryRankGroup::FollowExchange() {
  Patience patience;
  while (true) {
    ASSIGN_OR_RETURN(const bool follows, Follow());
    if (follows) return absl::OkStatus();
    patience.Wait();
  }
}

absl::StatusOr<bool> LibraryRankGroup::Follow() {
  MutexLock lock(mutex_);
  RETURN_IF_ERROR(error_);
  const absl::StatusOr<bool> holds = group_->HoldQueue();
  if (!holds.ok()) return Fail(holds.status());
  return holds;
}

absl::Status LibraryRankGroup::Error() {
  MutexLock lock(mutex_);
  RETURN_IF_ERROR(error_);
  if (!under_way_) return absl::OkStatus();
  const absl::StatusOr<bool> done = IsDone();
  return done.ok() ? absl::OkStatus() : Fail(done.status());
}

absl::StatusOr<bool> LibraryRankGroup::IsDone() {
  ASSIGN_OR_RETURN(const bool done, group_->Done());
  if (!done && Now() >= must_end_at_)
    return absl::DeadlineExceededError("the devices have not finished it in time");
  return done;
}

absl::Status LibraryRankGroup::Fail(const absl::Status& error) {
  if (error_.ok()) {
    error_ = Annotate(error, absl::StrCat("exchange of ranks ", absl::StrJoin(members_, ", "),
                                          " in their devices' memory"));
    group_->Abort();
  }
  under_way_ = false;
  return error_;
}

void LibraryRankGroup::Look() {
  GoneWatch gone(transport_, members_, channel_);
  MutexLock lock(mutex_);
  while (true) {
    changed_.WaitUntil(mutex_, absl::InfiniteFuture(), [&] { return ends_ || under_way_; });
    const absl::Time begun = Now();
    while (under_way_ && !ends_) {
      const absl::StatusOr<bool> done = IsDone();
      absl::Status status = done.status();
      if (status.ok()) status = gone.Check(Now() - begun);
      if (!status.ok()) {
        (void)Fail(status);
      } else if (*done) {
        under_way_ = false;
      } else {
        changed_.WaitUntil(mutex_, Now() + kBetweenLooks, [&] { return ends_; });
      }
    }
    if (!ends_) continue;
    group_->Abort();
    return;
  }
}

}  // namespace medley
