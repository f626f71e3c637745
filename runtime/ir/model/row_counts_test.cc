#include "runtime/ir/model/row_counts.h"

#include <catch2/catch.hpp>

namespace medley {
namespace {

TEST_CASE("parts of rows follow each other, are as even as may be and never shrink with the rows",
          "[property]") {
  for (int members = 1; members <= 9; ++members) {
    for (int64_t rows = 0; rows < 60; ++rows) {
      CAPTURE(members, rows);
      const std::vector<int64_t> ends = RowEnds(rows, members);
      REQUIRE(static_cast<int>(ends.size()) == members);
      CHECK(ends.back() == rows);
      int64_t next = 0;
      for (int m = 0; m < members; ++m) {
        const RowRange part = RowsOfMember(rows, members, m);
        CHECK(part.first == next);
        CHECK(part.end == ends[m]);
        CHECK(part.size() >= rows / members);
        CHECK(part.size() <= rows / members + 1);
        CHECK(part.size() <= RowsOfMember(rows + 1, members, m).size());
        next = part.end;
      }
    }
  }
  CHECK(PartsOf(5, 2) == std::vector<RowRange>{{0, 3}, {3, 5}});
  CHECK(PartsOf(2, 3) == std::vector<RowRange>{{0, 1}, {1, 2}});
  CHECK(PartsOf(4, 1) == std::vector<RowRange>{{0, 4}});
  CHECK(PartRows(3, 4, 2) == std::vector<RowRange>{{0, 8}, {8, 12}});
  CHECK(PartRows(2, 5, 2) == std::vector<RowRange>{{0, 5}, {5, 10}});
  CHECK(PartRows(2, 5, 3) == std::vector<RowRange>{{0, 4}, {4, 7}, {7, 10}});
  CHECK(PartRows(1, 8, 1) == std::vector<RowRange>{{0, 8}});
  CHECK(PartRows(1, 31, 2) == std::vector<RowRange>{{0, 16}, {16, 31}});
  CHECK(PartRows(1, 16, 2) == std::vector<RowRange>{{0, 8}, {8, 16}});
  CHECK(PartRows(1, 15, 2) == std::vector<RowRange>{{0, 8}, {8, 15}});
  CHECK(RowsOfMember(7, 3, 0) == RowRange{0, 3});
  CHECK(RowsOfMember(7, 3, 2) == RowRange{5, 7});
}

}  // namespace
}  // namespace medley
