#include "comm/collective/members.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace medley {

absl::StatusOr<int> PlaceAmong(const Transport& transport, absl::Span<const int> members) {
  for (size_t i = 0; i < members.size(); ++i) {
    if (members[i] < 0 || members[i] >= transport.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("members[", i, "] is ", members[i], ", not in [0, ", transport.size(), ")"));
    }
    if (i > 0 && members[i] <= members[i - 1]) {
      return absl::InvalidArgumentError(absl::StrCat("members[", i, "] is ", members[i],
                                                     ", not above members[", i - 1, "], ", members[i - 1]));
    }
  }
  const auto own = std::lower_bound(members.begin(), members.end(), transport.rank());
  if (own == members.end() || *own != transport.rank()) {
    return absl::InvalidArgumentError(
        absl::StrCat("members [", absl::StrJoin(members, ","), "] lack this rank, ", transport.rank()));
  }
  return static_cast<int>(own - members.begin());
}

}  // namespace medley
