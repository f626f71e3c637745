#pragma once
#include <cstdint>
#include <vector>

// Which rows of a micro-batch, a row being a token, the ranks of a unit have.
namespace medley {

// Rows [first, end).
struct RowRange {
  int64_t first = 0, end = 0;
  int64_t size() const { return end - first; }
  friend bool operator==(const RowRange&, const RowRange&) = default;
};

// Where the part of each of `members` ranks ends when they cut `rows` rows, as evenly as may be; it begins
// where the one before ends. Earlier ranks have the larger parts, and none has a smaller part of more rows.
std::vector<int64_t> RowEnds(int64_t rows, int members);
// The part of the `member`-th of them.
RowRange RowsOfMember(int64_t rows, int members, int member);

// The parts, as even as may be, into which `size` rows or sequences are cut, in their order; earlier ones are the larger. As
// many as there are rows, if there are fewer than `parts`.
std::vector<RowRange> PartsOf(int64_t size, int64_t parts);
// Of a micro-batch that is passed in parts (Unit::exchange_parts): whether these have less than whole sequences, because there are
// more of them; and the rows of each, whole sequences or as even as may be, where there are enough cut between eights of rows,
// so that what begins with a part lies as kernels like it.
inline bool PartsCutSequences(int64_t sequences, int64_t parts) { return parts > sequences; }
std::vector<RowRange> PartRows(int64_t sequences, int64_t sequence_rows, int64_t parts);

// How many rows of a micro-batch a rank passes through linear maps and what is between them (all), and how
// many it has of the residual stream and the norms: all, too, or, in sequence parallelism (Korthikanti et al.
// 2022, section 4.2.2), its own part.
struct RowCounts {
  RowCounts(int64_t rows) : all(rows), own(rows) {}
  RowCounts(int64_t all, int64_t own) : all(all), own(own) {}
  int64_t all = 0, own = 0;
};

}  // namespace medley
