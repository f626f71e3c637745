#pragma once
#include <cstdint>

#include "runtime/ir/collective/collective_choice.h"
#include "runtime/ir/collective/collective_problem.h"
#include "runtime/ir/collective/collective_schedule.h"

namespace medley {

// Seconds from when all members begin until the last one ends, as the executor of comm/collective runs the
// schedule:
//  - a message takes what its link's model says for its bytes: `exchange` where one of its ends also sends
//    and receives in that round, `transfer` where both only do the one;
//  - it leaves as soon as what it carries begins to arrive (messages travel in chunks, ChunksOf), and ends no
//    sooner than a chunk's time after that;
//  - messages that leave a member, or that come to it, take turns. Where the cards of both hosts are known, those of
//    a member to other hosts take turns by themselves, each takes the card of its host that is free first, and those that
//    leave a rack or a site share its way out; and as they come likewise. Of groups that sum at once each has its part of the cards: where
//    that is no whole number one more, all as much slower; and its part of the ways of racks and sites. Otherwise those that leave a part of the group across a boundary (BoundariesOf), or come to it, take
//    turns: they share what leads there. Latency alone occupies nothing.
// Some tens of nanoseconds a message.
double CollectiveSeconds(const CollectiveProblem& problem, const CollectiveSchedule& schedule);

// The seconds of AllReduceSchedule(members, elements, choice): equal to CollectiveSeconds of it. Those of
// a ring are found without the schedule, in a few microseconds for 8 members.
double AllReduceSeconds(const CollectiveProblem& problem, const CollectiveChoice& choice);

// Of a sum: all of it; that by which each member has its slice of the sum; that by which all have the slices of each.
enum class SumPart : uint8_t { kWhole, kScattered, kGathered };

// CollectiveSeconds of RingAllReduceSchedule, RingReduceScatter or RingAllGather without the schedule: to the bit the same, in a few
// microseconds for 8 members. `shape` must fit (CheckGroupShape).
double RingSeconds(const CollectiveProblem& problem, const GroupShape& shape, SumPart part = SumPart::kWhole);

}  // namespace medley
