#pragma once
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "comm/transport/message_tag.h"
#include "comm/transport/transport.h"

namespace medley {

// Notices that a member is gone with whom this rank exchanges nothing: those in between wait for it as well,
// and leave without a word. Listens to each member that is a peer for an empty message that never comes, and fails when
// the member does; of those that are no peers the peers in between tell, as they give up.
class GoneWatch {
 public:
  // Members' messages of this sequence number and of kReduce are the watch's.
  static constexpr uint32_t kSequence = kMaximumSequences - 1;

  // `members` outlive it.
  GoneWatch(Transport& transport, absl::Span<const int> members, uint16_t channel)
      : transport_(transport), members_(members), channel_(channel) {}
  // Of an exchange that has waited so long without an end: listens from when it may be that a member is gone.
  // Unavailable: one is; names it. Cancelled and others: as of Transport. Does not block.
  absl::Status Check(absl::Duration waited);

 private:
  absl::Status Listen();

  Transport& transport_;
  const absl::Span<const int> members_;
  const uint16_t channel_;
  std::optional<absl::Status> started_;
  std::vector<std::pair<int, std::unique_ptr<Transfer>>> listening_;  // by rank
};

}  // namespace medley
