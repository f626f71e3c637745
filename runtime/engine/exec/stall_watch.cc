#include "runtime/engine/exec/stall_watch.h"

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/base/bytes.h"
#include "runtime/base/clock.h"

namespace medley {
namespace {

struct Came {
  uint64_t bytes = 0, messages = 0;
};

std::map<int, Came> CameByRank(const Transport& transport) {
  std::map<int, Came> came;
  for (const PeerTraffic& traffic : transport.Traffic()) {
    came[traffic.peer].bytes += traffic.bytes_received;
    came[traffic.peer].messages += traffic.messages_received;
  }
  return came;
}

}  // namespace

std::string StallReport(const ActivityBoard& board, const Activity& stalled, const Transport& transport,
                        const AskRanks& ask) {
  const absl::Time now = Now();
  std::string text =
      absl::StrCat("rank ", transport.rank(), ", ", board.Phase(), ": ", Describe(stalled, now));
  std::map<int, Came> came = CameByRank(transport);
  for (const int rank : stalled.peers) {
    absl::StrAppendFormat(&text, "; from rank %d came %s in %u messages", rank,
                          FormatBytes({static_cast<int64_t>(came[rank].bytes)}), came[rank].messages);
  }
  if (!ask) return text;
  const std::vector<absl::StatusOr<std::string>> answers = ask(stalled.peers);
  for (size_t i = 0; i < answers.size(); ++i) {
    absl::StrAppend(&text, "; rank ", stalled.peers[i],
                    answers[i].ok() ? absl::StrCat(" says: ", *answers[i])
                                    : absl::StrCat(" does not answer: ", answers[i].status().message()));
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
