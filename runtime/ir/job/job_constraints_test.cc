#include "runtime/ir/job/job_constraints.h"

#include <catch2/catch.hpp>

namespace medley {
namespace {

TEST_CASE("candidates for the micro-batch divide the batch") {
  CHECK(CandidateMicroBatches({}, 12) == std::vector<int>{1, 2, 4});
  CHECK(CandidateMicroBatches({}, 64) == std::vector<int>{1, 2, 4, 8, 16});
  CHECK(CandidateMicroBatches({}, 7) == std::vector<int>{1});
  CHECK(CandidateMicroBatches({.micro_batch_sizes = {6, 3, 6}}, 12) == std::vector<int>{3, 6});
}

}  // namespace
}  // namespace medley
