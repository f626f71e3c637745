#include "runtime/ir/model/row_counts.h"

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

}  // namespace medley
