#include "comm/group/join_group.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
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
absl::StatusOr<Word> AwaitJoined(DeviceGroup& group, ByteExchange& outcomes, absl::Time deadline) {
  Patience patience;
  while (true) {
    const absl::StatusOr<bool> done = group.Done();
    if (!done.ok()) return Failure(done.status());
    if (*done) return Word{};
    if (Now() >= deadline) return Word{false, "the others have not come in time"};
    ASSIGN_OR_RETURN(const std::vector<std::string> heard, outcomes.Heard());
    for (const std::string& told : heard) {
      if (!Decode(told).ok) return Word{false, ""};
    }
    patience.Wait();
  }
}

}  // namespace

absl::StatusOr<JoinedGroup> JoinGroup(Transport& transport, GroupLibrary& library,
                                      absl::Span<const int> members, absl::Time deadline) {
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

  ByteExchange outcomes(transport, members, kOutcomeTag, kWordBytes, kWhat);
  absl::StatusOr<std::unique_ptr<DeviceGroup>> group =
      library.Join(id.text, place, static_cast<int>(members.size()));
  Word own = Failure(group.status());
  if (group.ok()) {
    const absl::Time patience_ends = Now() + (deadline - Now()) / 2;
    ASSIGN_OR_RETURN(own, AwaitJoined(**group, outcomes, patience_ends));
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> told, outcomes.Finish(Encode(own), deadline));

  JoinedGroup joined;
  for (size_t i = 0; i < told.size(); ++i) {
    const Word word = Decode(told[i]);
    if (!word.ok && !word.text.empty() && joined.failure.empty()) joined.failure = Says(members[i], word);
  }
  const bool all =
      std::all_of(told.begin(), told.end(), [](const std::string& bytes) { return Decode(bytes).ok; });
  if (all) {
    joined.group = *std::move(group);
  } else {
    if (group.ok()) (*group)->Abort();
    if (joined.failure.empty()) joined.failure = "a member cannot join, and does not say why";
  }
  return joined;
}

}  // namespace medley
