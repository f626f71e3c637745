#pragma once
#include <cstdint>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "comm/transport/transport.h"
#include "runtime/ir/collective/collective_schedule.h"
#include "runtime/ir/collective/wire_type.h"

namespace medley {

// Plays this rank's part of `schedule` over `values`, which then has the bits that RunSerially gives for it.
// `members`: the ranks by place, ascending, this one among them. Every member calls it with the same
// arguments but `values`.
//
// Messages travel in chunks (chunk_size.h). A chunk leaves as soon as what it carries is complete, several
// are under way with each peer, and the adding is done meanwhile. Beside `values` it takes up to
// kReceivesAhead chunks (2 MiB) for each member that it adds from, and with bf16 kSendsAhead for each that it
// sends to. Any schedule that CheckSchedule passes comes to an end.
//
// Blocks; to be called from one thread per channel. Calls of one channel are told apart by their order, so
// two groups that share a pair of members and run at the same time need two channels.
//
// Errors; `values` is then of no use:
//   InvalidArgument   members, as for PlaceAmong; or the schedule is for others, of another member alone, or for another
//                     number of values.
//   DeadlineExceeded  names the peer that it waits for, the step, and the bytes of it that are done.
//   Unavailable       a peer is gone; names it, and the step.
//   others            those of Transport, with the same.
absl::Status RunCollective(Transport& transport, const CollectiveSchedule& schedule,
                           absl::Span<const int> members, uint16_t channel, absl::Span<float> values,
                           WireType wire, absl::Time deadline);

// Receives begin with few, which stay in the caches (one, of a peer whose memory is shared), and become more
// where the peer is slow to answer.
inline constexpr int kFirstReceivesAhead = 2, kReceivesAhead = 8;
inline constexpr int kSendsAhead = 8;

}  // namespace medley
