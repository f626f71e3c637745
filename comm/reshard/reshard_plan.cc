#include "comm/reshard/reshard_plan.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

constexpr int64_t kMaximumBytes = int64_t{1} << 48;
constexpr int64_t kMaximumMessages = 1 << 18;  // for each receiver

absl::Status CheckSlices(const char* side, const std::vector<ReshardSlice>& slices, int64_t columns,
                         std::set<int>& ranks) {
  for (const ReshardSlice& slice : slices) {
    const std::string who = absl::StrCat(side, " of rank ", slice.rank, ": ");
    if (slice.rank < 0) return absl::InvalidArgumentError(absl::StrCat(who, "the rank is negative"));
    if (!ranks.insert(slice.rank).second) {
      return absl::InvalidArgumentError(absl::StrCat(who, "the rank is there twice"));
    }
    if (slice.column_begin < 0 || slice.column_end < slice.column_begin || slice.column_end > columns) {
      return absl::InvalidArgumentError(absl::StrCat(who, "columns [", slice.column_begin, ", ",
                                                     slice.column_end, ") are not within [0, ", columns,
                                                     ")"));
    }
    if (slice.weight == 0)
      return absl::InvalidArgumentError(absl::StrCat(who, "weight is 0, not in [1, 2^32)"));
  }
  return absl::OkStatus();
}

absl::Status Check(const ReshardProblem& problem, int64_t message_bytes) {
  const auto positive = [](const char* name, int64_t value, int64_t least) {
    if (value >= least && value <= kMaximumBytes) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(name, " is ", value, ", not in [", least, ", 2^48]"));
  };
  RETURN_IF_ERROR(positive("rows", problem.rows, 0));
  RETURN_IF_ERROR(positive("columns", problem.columns, 0));
  RETURN_IF_ERROR(positive("element_bytes", problem.element_bytes, 1));
  RETURN_IF_ERROR(positive("message_bytes", message_bytes, 1));
  const unsigned __int128 row_bytes = static_cast<unsigned __int128>(problem.columns) * problem.element_bytes;
  if (row_bytes > kMaximumBytes || row_bytes * problem.rows > kMaximumBytes) {
    return absl::InvalidArgumentError(absl::StrCat("a tensor of ", problem.rows, " x ", problem.columns,
                                                   " x ", problem.element_bytes,
                                                   " bytes has more than 2^48 bytes"));
  }
  if (static_cast<int64_t>(row_bytes * problem.rows) / message_bytes > kMaximumMessages) {
    return absl::InvalidArgumentError(
        absl::StrCat("message_bytes is ", message_bytes, ", too little for a tensor of ",
                     static_cast<int64_t>(row_bytes * problem.rows), " bytes: at most 2^18 times as much"));
  }
  std::set<int> ranks;
  RETURN_IF_ERROR(CheckSlices("sender's slice", problem.senders, problem.columns, ranks));
  return CheckSlices("receiver's slice", problem.receivers, problem.columns, ranks);
}

// Columns that the same ranks hold and the same ranks need. They stand one after the other in a line of all
// elements that are needed, each read row by row; `line_begin` is where this one begins.
struct Segment {
  int64_t column_begin, column_end;
  std::vector<const ReshardSlice*> holders, needers;
  int64_t line_begin;
  int64_t line_end(int64_t rows) const { return line_begin + rows * (column_end - column_begin); }
};

std::vector<const ReshardSlice*> Covering(const std::vector<ReshardSlice>& slices, int64_t column) {
  std::vector<const ReshardSlice*> covering;
  for (const ReshardSlice& slice : slices) {
    if (slice.column_begin <= column && column < slice.column_end) covering.push_back(&slice);
  }
  return covering;
}

absl::StatusOr<std::vector<Segment>> Segments(const ReshardProblem& problem) {
  std::set<int64_t> cuts;
  for (const auto* slices : {&problem.senders, &problem.receivers}) {
    for (const ReshardSlice& slice : *slices) cuts.insert({slice.column_begin, slice.column_end});
  }
  std::vector<Segment> segments;
  int64_t line = 0;
  for (auto cut = cuts.begin(); cut != cuts.end() && std::next(cut) != cuts.end(); ++cut) {
    Segment segment{*cut, *std::next(cut), Covering(problem.senders, *cut), Covering(problem.receivers, *cut),
                    line};
    if (segment.needers.empty()) continue;
    if (segment.holders.empty()) {
      return absl::InvalidArgumentError(absl::StrCat("column ", *cut, " is needed by rank ",
                                                     segment.needers[0]->rank, " and held by nobody"));
    }
    line = segment.line_end(problem.rows);
    segments.push_back(std::move(segment));
  }
  return segments;
}

// By where they begin in the line: who carries the elements from there on.
using Carriers = std::map<int64_t, int>;

// Divides every stretch of the line that the same `side` of ranks has, among them, by weight.
Carriers Divide(const std::vector<Segment>& segments, int64_t rows,
                std::vector<const ReshardSlice*> Segment::*side) {
  Carriers carriers;
  for (size_t first = 0, after; first < segments.size(); first = after) {
    const std::vector<const ReshardSlice*>& ranks = segments[first].*side;
    after = first + 1;
    while (after < segments.size() && segments[after].*side == ranks) ++after;
    const int64_t begin = segments[first].line_begin, length = segments[after - 1].line_end(rows) - begin;
    unsigned __int128 total = 0, so_far = 0;
    for (const ReshardSlice* slice : ranks) total += slice->weight;
    // One that carries nothing begins where the next one does, which replaces it.
    for (const ReshardSlice* slice : ranks) {
      carriers[begin + static_cast<int64_t>(so_far * static_cast<uint64_t>(length) / total)] = slice->rank;
      so_far += slice->weight;
    }
  }
  return carriers;
}

// A range of the line with one segment, one sender and one receiver.
struct Crossing {
  const Segment* segment;
  int from, to;
  int64_t element_begin, element_end;
};

std::vector<Crossing> Crossings(const std::vector<Segment>& segments, int64_t rows) {
  const Carriers senders = Divide(segments, rows, &Segment::holders);
  const Carriers receivers = Divide(segments, rows, &Segment::needers);
  std::vector<Crossing> crossings;
  for (const Segment& segment : segments) {
    const int64_t end = segment.line_end(rows);
    for (int64_t at = segment.line_begin, next; at < end; at = next) {
      const auto sender = std::prev(senders.upper_bound(at)), receiver = std::prev(receivers.upper_bound(at));
      next = end;
      if (std::next(sender) != senders.end()) next = std::min(next, std::next(sender)->first);
      if (std::next(receiver) != receivers.end()) next = std::min(next, std::next(receiver)->first);
      crossings.push_back(
          {&segment, sender->second, receiver->second, at - segment.line_begin, next - segment.line_begin});
    }
  }
  return crossings;
}

}  // namespace

absl::StatusOr<ReshardPlan> PlanReshard(const ReshardProblem& problem, int64_t message_bytes) {
  RETURN_IF_ERROR(Check(problem, message_bytes));
  ReshardPlan plan{problem, {}};
  ASSIGN_OR_RETURN(const std::vector<Segment> segments, Segments(problem));
  const std::vector<Crossing> crossings = Crossings(segments, problem.rows);
  const int64_t chunk = std::max<int64_t>(1, message_bytes / problem.element_bytes);
  // The first chunk of every crossing, then the second of every one, and so on: so all links are busy from
  // the start.
  bool more = true;
  for (int64_t round = 0; more; ++round) {
    more = false;
    for (const Crossing& crossing : crossings) {
      const int64_t begin = crossing.element_begin + round * chunk;
      if (begin >= crossing.element_end) continue;
      more = true;
      ReshardMessage message{crossing.from,
                             crossing.to,
                             crossing.segment->column_begin,
                             crossing.segment->column_end,
                             begin,
                             std::min(begin + chunk, crossing.element_end)};
      const int64_t brought = static_cast<int64_t>(plan.messages.size());
      plan.messages.push_back(message);
      for (const ReshardSlice* needer : crossing.segment->needers) {
        if (needer->rank == crossing.to) continue;
        message.from = crossing.to;
        message.to = needer->rank;
        message.passes_on = brought;
        plan.messages.push_back(message);
      }
    }
  }
  return plan;
}

ReshardVolume MeasureReshard(const ReshardPlan& plan) {
  ReshardVolume volume;
  std::map<int, int64_t> sent, taken;
  for (const ReshardMessage& message : plan.messages) {
    const int64_t bytes = message.elements() * plan.problem.element_bytes;
    if (!message.crosses()) {
      volume.inside_bytes += bytes;
      continue;
    }
    volume.crossing_bytes += bytes;
    volume.busiest_sender_bytes = std::max(volume.busiest_sender_bytes, sent[message.from] += bytes);
    volume.busiest_receiver_bytes = std::max(volume.busiest_receiver_bytes, taken[message.to] += bytes);
  }
  return volume;
}

}  // namespace medley
