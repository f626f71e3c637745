#include "runtime/ir/model/row_counts.h"

#include <algorithm>

namespace medley {

std::vector<int64_t> RowEnds(int64_t rows, int members) {
  std::vector<int64_t> ends(members);
  for (int m = 0; m < members; ++m) ends[m] = RowsOfMember(rows, members, m).end;
  return ends;
}

RowRange RowsOfMember(int64_t rows, int members, int member) {
  const auto end = [&](int64_t m) {
    return m * (rows / members) + (m < rows % members ? m : rows % members);
  };
  return {end(member), end(member + 1)};
}

std::vector<RowRange> PartsOf(int64_t size, int64_t parts) {
  const int count = static_cast<int>(std::clamp<int64_t>(parts, 1, std::max<int64_t>(size, 1)));
  std::vector<RowRange> ranges(count);
  for (int part = 0; part < count; ++part) ranges[part] = RowsOfMember(size, count, part);
  return ranges;
}

std::vector<RowRange> PartRows(int64_t sequences, int64_t sequence_rows, int64_t parts) {
  constexpr int64_t kTogether = 8;
  const int64_t all = sequences * sequence_rows;
  int64_t step = sequence_rows;
  if (PartsCutSequences(sequences, parts)) step = all >= kTogether * parts ? kTogether : 1;
  std::vector<RowRange> rows = PartsOf(all / step, parts);
  for (RowRange& part : rows) part = {part.first * step, part.end * step};
  rows.back().end = all;
  return rows;
}

}  // namespace medley
