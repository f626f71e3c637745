#include "runtime/base/counted.h"

#include <catch2/catch.hpp>
#include <cstdint>

namespace medley {
namespace {

TEST_CASE("one thing is one, and any other number of them several") {
  CHECK(Counted(1, "route") == "1 route");
  CHECK(Counted(0, "route") == "0 routes");
  CHECK(Counted(size_t{2}, "route") == "2 routes");
  CHECK(Counted(1, "micro-batch", "micro-batches") == "1 micro-batch");
  CHECK(Counted(6, "micro-batch", "micro-batches") == "6 micro-batches");
  CHECK(Counted(int64_t{-1}, "route") == "-1 routes");
}

}  // namespace
}  // namespace medley
