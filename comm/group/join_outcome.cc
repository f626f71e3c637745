#include "comm/group/join_outcome.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"
#include "runtime/ir/collective/scalar_tree.h"

namespace medley {
namespace {

constexpr std::byte kSucceeded{1}, kFailed{2};

std::string With(int rank) { return absl::StrCat("joining a group of devices with rank ", rank); }

}  // namespace

JoinOutcome::JoinOutcome(Transport& transport, absl::Span<const int> members, int place, MessageTag tag)
    : transport_(transport), tag_(tag) {
  const ScalarTree tree(static_cast<int>(members.size()));
  for (int level = 0; level <= tree.levels() && tree.TakesPart(level, place); ++level) {
    const std::vector<int> group = tree.GroupOf(level, place);
    for (const int other : group) {
      if (other == place) continue;
      if (level == tree.levels()) {
        Listen(members[other], Way::kBeside);
      } else if (group.front() == place) {
        Listen(members[other], Way::kDown);
      } else if (group.front() == other) {
        Listen(members[other], Way::kUp);
      }
    }
  }
}

void JoinOutcome::Listen(int rank, Way way) {
  if (!listening_.ok()) return;
  Neighbour& neighbour = *neighbours_.emplace_back(std::make_unique<Neighbour>());
  neighbour.rank = rank;
  neighbour.way = way;
  absl::StatusOr<std::unique_ptr<Transfer>> receive = transport_.Receive(rank, tag_, {&neighbour.heard, 1});
  listening_ = receive.status();
  if (receive.ok()) neighbour.receive = *std::move(receive);
}

absl::Status JoinOutcome::Look() {
  RETURN_IF_ERROR(listening_);
  for (const auto& neighbour : neighbours_) {
    if (!neighbour->word.has_value() && neighbour->receive->Done()) {
      RETURN_IF_ERROR(Annotate(neighbour->receive->Wait(absl::InfiniteFuture()), With(neighbour->rank)));
      neighbour->word = neighbour->heard == kSucceeded;
    }
    has_failed_ |= !neighbour->word.value_or(true);
  }
  has_failed_ |= !own_.value_or(true);
  if (has_failed_) {
    for (const Way way : {Way::kUp, Way::kDown, Way::kBeside}) RETURN_IF_ERROR(Tell(way, false));
    return absl::OkStatus();
  }
  if (!own_.value_or(false) || !AllSucceeded(Way::kDown)) return absl::OkStatus();
  RETURN_IF_ERROR(Tell(Way::kUp, true));
  RETURN_IF_ERROR(Tell(Way::kBeside, true));
  if (!AllSucceeded(Way::kUp) || !AllSucceeded(Way::kBeside)) return absl::OkStatus();
  return Tell(Way::kDown, true);
}

bool JoinOutcome::AllSucceeded(Way way) const {
  return std::all_of(neighbours_.begin(), neighbours_.end(), [&](const auto& neighbour) {
    return neighbour->way != way || neighbour->word.value_or(false);
  });
}

absl::Status JoinOutcome::Tell(Way way, bool succeeded) {
  for (const auto& neighbour : neighbours_) {
    if (neighbour->way != way || neighbour->send != nullptr) continue;
    neighbour->told = succeeded ? kSucceeded : kFailed;
    absl::StatusOr<std::unique_ptr<Transfer>> send =
        transport_.Send(neighbour->rank, tag_, {&neighbour->told, 1});
    if (!send.ok()) return Annotate(send.status(), With(neighbour->rank));
    neighbour->send = *std::move(send);
  }
  return absl::OkStatus();
}

bool JoinOutcome::is_over() const {
  if (!own_.has_value()) return false;
  return std::all_of(neighbours_.begin(), neighbours_.end(), [](const auto& neighbour) {
    return neighbour->word.has_value() && neighbour->send != nullptr && neighbour->send->Done();
  });
}

}  // namespace medley
