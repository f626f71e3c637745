#include "runtime/engine/exec/activity_board.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "runtime/base/bytes.h"
#include "runtime/base/clock.h"

namespace medley {

std::string Describe(const Activity& activity, absl::Time now) {
  const Instruction& instruction = activity.instruction;
  std::string text = activity.what.empty() ? NameOf(instruction) : activity.what;
  if (instruction.micro_batch >= 0)
    absl::StrAppend(&text, " of micro-batch ", instruction.micro_batch.value());
  if (instruction.slice >= 0) absl::StrAppend(&text, " of slice ", instruction.slice);
  if (instruction.bytes.value > 0) absl::StrAppend(&text, " (", FormatBytes(instruction.bytes), ")");
  if (!activity.peers.empty()) {
    absl::StrAppend(&text, activity.peers.size() == 1 ? " with rank " : " with ranks ",
                    absl::StrJoin(activity.peers, ", "));
  }
  return absl::StrCat(text, absl::StrFormat(" for %.1f s", absl::ToDoubleSeconds(now - activity.since)));
}

void ActivityBoard::Enter(const std::string& phase) {
  MutexLock lock(mutex_);
  phase_ = phase;
  phase_since_ = Now();
}

void ActivityBoard::Begin(const Instruction& instruction, std::vector<int> peers) {
  MutexLock lock(mutex_);
  streams_[static_cast<int>(instruction.stream)] = Activity{instruction, std::move(peers), Now(), ""};
}

void ActivityBoard::BeginExchange(const std::string& what, std::vector<int> peers) {
  MutexLock lock(mutex_);
  const Instruction none{.kind = InstructionKind::kReduceScalars, .stream = Stream::kCollective};
  streams_[static_cast<int>(none.stream)] = Activity{none, std::move(peers), Now(), what};
}

void ActivityBoard::End(Stream stream) {
  MutexLock lock(mutex_);
  streams_[static_cast<int>(stream)].reset();
}

std::string ActivityBoard::Phase() const {
  MutexLock lock(mutex_);
  return phase_;
}

std::vector<Activity> ActivityBoard::Running() const {
  MutexLock lock(mutex_);
  std::vector<Activity> running;
  for (const std::optional<Activity>& activity : streams_) {
    if (activity) running.push_back(*activity);
  }
  return running;
}

bool ActivityBoard::WaitsForPeers() const {
  const std::vector<Activity> running = Running();
  return !running.empty() && std::all_of(running.begin(), running.end(),
                                         [](const Activity& activity) { return !activity.peers.empty(); });
}

std::string ActivityBoard::Describe(absl::Time now) const {
  const std::vector<Activity> running = Running();
  MutexLock lock(mutex_);
  if (running.empty()) {
    return absl::StrCat(phase_, absl::StrFormat(" for %.1f s", absl::ToDoubleSeconds(now - phase_since_)));
  }
  return absl::StrCat(phase_, ": ",
                      absl::StrJoin(running, "; ", [now](std::string* out, const Activity& activity) {
                        absl::StrAppend(out, medley::Describe(activity, now));
                      }));
}

}  // namespace medley
