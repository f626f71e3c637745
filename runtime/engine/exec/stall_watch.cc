#include "runtime/engine/exec/stall_watch.h"

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/base/bytes.h"
#include "runtime/base/clock.h"

namespace medley {
namespace {

std::string CameFrom(const Transport& transport, int rank) {
  uint64_t bytes = 0, messages = 0;
  for (const PeerTraffic& traffic : transport.Traffic()) {
    if (traffic.peer != rank) continue;
    bytes += traffic.bytes_received;
    messages += traffic.messages_received;
  }
  return absl::StrFormat("from rank %d came %s in %u messages", rank,
                         FormatBytes({static_cast<int64_t>(bytes)}), messages);
}

}  // namespace

std::string StallReport(const ActivityBoard& board, const Activity& stalled, const Transport& transport,
                        const AskRank& ask) {
  const absl::Time now = Now();
  std::string text =
      absl::StrCat("rank ", transport.rank(), ", ", board.Phase(), ": ", Describe(stalled, now));
  for (const int rank : stalled.peers) absl::StrAppend(&text, "; ", CameFrom(transport, rank));
  if (!ask) return text;
  for (const int rank : stalled.peers) {
    const absl::StatusOr<std::string> answer = ask(rank);
    absl::StrAppend(&text, "; rank ", rank,
                    answer.ok() ? absl::StrCat(" says: ", *answer)
                                : absl::StrCat(" does not answer: ", answer.status().message()));
  }
  return text;
}

StallWatch::StallWatch(const ActivityBoard& board, const Transport& transport, Options options)
    : board_(board), transport_(transport), options_(std::move(options)), thread_([this] { Run(); }) {}

StallWatch::~StallWatch() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
}

void StallWatch::Run() {
  // When the wait of each stream began, and after how long it is reported again.
  std::map<Stream, std::pair<absl::Time, absl::Duration>> next;
  while (true) {
    {
      MutexLock lock(mutex_);
      if (changed_.WaitUntil(mutex_, Now() + options_.patience / 4, [this] { return stopping_; })) return;
    }
    for (const Activity& activity : board_.Running()) {
      if (activity.peers.empty()) continue;  // it waits for nobody
      auto& [since, limit] = next[activity.instruction.stream];
      if (since != activity.since) {
        since = activity.since;
        limit = options_.patience;
      }
      if (Now() - since < limit) continue;
      limit *= 2;
      options_.report(StallReport(board_, activity, transport_, options_.ask));
    }
  }
}

}  // namespace medley
