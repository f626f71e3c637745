#include "comm/collective/all_reduce_scalars.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "comm/collective/members.h"
#include "runtime/base/status_macros.h"

namespace medley {

absl::Status AllReduceScalars(Transport& transport, absl::Span<const int> members, absl::Span<double> values,
                              absl::Time deadline) {
  ASSIGN_OR_RETURN(const int place, PlaceAmong(transport, members));
  const size_t count = values.size();
  if (members.size() == 1 || count == 0) return absl::OkStatus();
  const MessageTag tag{MessageTag::Kind::kScalars, 0, 0};
  std::vector<double> all(members.size() * count);
  const auto row = [&](size_t i) { return absl::MakeSpan(all).subspan(i * count, count); };
  const auto bytes = [&](size_t i) {
    return absl::Span<std::byte>(reinterpret_cast<std::byte*>(row(i).data()), count * sizeof(double));
  };
  std::copy(values.begin(), values.end(), row(place).begin());

  // Declared after the bytes that they read and write.
  std::vector<std::unique_ptr<Transfer>> receives(members.size()), sends(members.size());
  for (size_t i = 0; i < members.size(); ++i) {
    if (static_cast<int>(i) == place) continue;
    ASSIGN_OR_RETURN(receives[i], transport.Receive(members[i], tag, bytes(i)));
    ASSIGN_OR_RETURN(sends[i], transport.Send(members[i], tag, bytes(place)));
  }
  for (size_t i = 0; i < members.size(); ++i) {
    if (static_cast<int>(i) == place) continue;
    const std::string context = absl::StrCat("all-reduce of scalars with rank ", members[i]);
    RETURN_IF_ERROR(Annotate(receives[i]->Wait(deadline), context));
    RETURN_IF_ERROR(Annotate(sends[i]->Wait(deadline), context));
  }
  std::fill(values.begin(), values.end(), 0.0);
  for (size_t i = 0; i < members.size(); ++i) {
    for (size_t k = 0; k < count; ++k) values[k] += row(i)[k];
  }
  return absl::OkStatus();
}

}  // namespace medley
