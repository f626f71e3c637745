#include "comm/group/join_group.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "comm/group/join_outcome.h"
#include "comm/group/patience.h"
#include "comm/transport/exchange_bytes.h"
#include "runtime/base/clock.h"
#include "runtime/base/status_macros.h"
#include "runtime/base/valid_utf8.h"

namespace medley {
namespace {

// Of a probe's kind, on channels that probes do not use.
constexpr MessageTag kIdTag{.kind = MessageTag::Kind::kProbe, .channel = 3};
constexpr MessageTag kOutcomeTag{.kind = MessageTag::Kind::kProbe, .channel = 4};
constexpr MessageTag kWordsTag{.kind = MessageTag::Kind::kProbe, .channel = 6};
constexpr char kWhat[] = "joining a group of devices";

// What a member tells another: whether it has done its part, its words if it has not, or what it made.
struct Word {
  bool ok = true;
  std::string text;
};
constexpr size_t kHeadBytes = 2, kMostTextBytes = 254, kWordBytes = kHeadBytes + kMostTextBytes;
static_assert(GroupLibrary::kMostIdBytes <= kMostTextBytes);

Word Failure(const absl::Status& status) { return {false, std::string(status.message())}; }

std::string Encode(const Word& word) {
  const size_t size = std::min(word.text.size(), kMostTextBytes);
  std::string bytes = {static_cast<char>(word.ok ? 1 : 0), static_cast<char>(size)};
  bytes.append(word.text, 0, size);
  bytes.resize(kWordBytes);
  return bytes;
}

Word Decode(const std::string& bytes) {
  const size_t size = std::min<size_t>(static_cast<unsigned char>(bytes[1]), kMostTextBytes);
  return {bytes[0] == 1, bytes.substr(kHeadBytes, size)};
}

std::string Says(int rank, const Word& word) {
  return absl::StrCat("rank ", rank, " cannot join: ", ValidUtf8(word.text));
}

// What this member has to tell: that it has joined, or why it cannot; it has no words of its own if it gives
// up because another cannot. Errors: of the transport.
absl::StatusOr<Word> AwaitJoined(DeviceGroup& group, JoinOutcome& outcome, absl::Time deadline) {
  Patience patience;
  while (true) {
    const absl::StatusOr<bool> done = group.Done();
    if (!done.ok()) return Failure(done.status());
    if (*done) return Word{};
    if (Now() >= deadline) return Word{false, "the others have not come in time"};
    RETURN_IF_ERROR(outcome.Look());
    if (outcome.has_failed()) return Word{false, ""};
    patience.Wait();
  }
}

absl::Status AwaitOutcome(JoinOutcome& outcome, absl::Time deadline) {
  Patience patience;
  while (true) {
    RETURN_IF_ERROR(outcome.Look());
    if (outcome.is_over()) return absl::OkStatus();
    if (Now() >= deadline) return absl::DeadlineExceededError(absl::StrCat(kWhat, ": not all have answered"));
    patience.Wait();
  }
}

// Why there is no group, the same at all members.
std::string FailureOf(absl::Span<const int> members, const std::vector<std::string>& told) {
  for (size_t i = 0; i < told.size(); ++i) {
    const Word word = Decode(told[i]);
    if (!word.ok && !word.text.empty()) return Says(members[i], word);
  }
  return "a member cannot join, and does not say why";
}

}  // namespace

absl::StatusOr<JoinedGroup> JoinGroup(Transport& transport, GroupLibrary& library,
                                      absl::Span<const int> members, absl::Time deadline,
                                      std::optional<int> number) {
  const auto place =
      static_cast<int>(std::find(members.begin(), members.end(), transport.rank()) - members.begin());
  Word made;
  if (place == 0) {
    const absl::StatusOr<std::string> id = library.MakeId();
    made = id.ok() ? Word{true, *id} : Failure(id.status());
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> ids,
                   ExchangeBytes(transport, members, kIdTag, Encode(made), kWhat, deadline));
  const Word id = Decode(ids.front());
  if (!id.ok) return JoinedGroup{nullptr, Says(members.front(), id)};

  JoinOutcome outcome(transport, members, place, kOutcomeTag);
  absl::StatusOr<std::unique_ptr<DeviceGroup>> group =
      library.Join(id.text, number.value_or(place), static_cast<int>(members.size()));
  Word own = Failure(group.status());
  if (group.ok()) {
    const absl::Time patience_ends = Now() + (deadline - Now()) / 2;
    ASSIGN_OR_RETURN(own, AwaitJoined(**group, outcome, patience_ends));
  }
  outcome.Decide(own.ok);
  RETURN_IF_ERROR(AwaitOutcome(outcome, deadline));
  if (!outcome.has_failed()) return JoinedGroup{*std::move(group), ""};
  if (group.ok()) (*group)->Abort();
  ASSIGN_OR_RETURN(const std::vector<std::string> words,
                   ExchangeBytes(transport, members, kWordsTag, Encode(own), kWhat, deadline));
  return JoinedGroup{nullptr, FailureOf(members, words)};
}

}  // namespace medley
