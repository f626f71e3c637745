#pragma once
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"

namespace medley {

// The part of a [rows x columns] tensor that one rank holds or needs: all rows of columns [column_begin,
// column_end), row-major without gaps. May be empty; may overlap those of others, all the way to everyone
// having everything.
struct ReshardSlice {
  int rank = 0;
  int64_t column_begin = 0, column_end = 0;
  // How much of what several ranks hold (or need) alike this one sends (or takes) over the link between the
  // units, in relation to the others: the speed of its link, in any unit; [1, 2^32).
  uint32_t weight = 1;
};

// A tensor that goes from one unit to another, which cut it differently.
struct ReshardProblem {
  int64_t rows = 0, columns = 0, element_bytes = 0;
  std::vector<ReshardSlice> senders, receivers;  // no rank twice
};

// One message: of the columns [column_begin, column_end), read row by row, the elements [element_begin,
// element_end).
struct ReshardMessage {
  int from = 0, to = 0;
  int64_t column_begin = 0, column_end = 0;
  int64_t element_begin = 0, element_end = 0;
  // The message that brings `from` these very elements, when `from` is a receiver that passes them on; -1:
  // `from` is a sender, and the message goes from unit to unit.
  int64_t passes_on = -1;

  bool crosses() const { return passes_on < 0; }
  int64_t elements() const { return element_end - element_begin; }
};

// Every element that a receiver needs goes from one sender to one receiver, who passes it on to the others
// that need it. Messages stand after those that they pass on. Ranks that start theirs in this order, with any
// number under way, cannot wait for each other in a circle.
struct ReshardPlan {
  ReshardProblem problem;
  std::vector<ReshardMessage> messages;
};

// The same on all ranks, since it is made of integers alone. No message is of more than `message_bytes`,
// rounded up to an element. InvalidArgument: a size is out of range (the tensor has at most 2^48 bytes, and
// 2^18 times message_bytes), a slice is not within the columns, a rank is there twice or negative, a weight
// is 0, or a column is needed that nobody holds; names it.
absl::StatusOr<ReshardPlan> PlanReshard(const ReshardProblem& problem, int64_t message_bytes);

// What a plan moves.
struct ReshardVolume {
  int64_t crossing_bytes = 0;          // between the units
  int64_t inside_bytes = 0;            // within the receiving unit
  int64_t busiest_sender_bytes = 0;    // the most that one sender sends over the link between the units
  int64_t busiest_receiver_bytes = 0;  // the most that one receiver takes from it
};
ReshardVolume MeasureReshard(const ReshardPlan& plan);

}  // namespace medley
