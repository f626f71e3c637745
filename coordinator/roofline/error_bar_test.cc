#include "coordinator/roofline/error_bar.h"

#include <catch2/catch.hpp>

namespace medley {
namespace {

TEST_CASE("an error bar is what two of three and nine of ten errors are within, whatever their sign") {
  std::vector<double> errors;
  for (int i = 0; i <= 90; ++i) errors.push_back((i % 2 == 0 ? 0.01 : -0.01) * i);
  const ErrorBar bar = ErrorBarOf(errors, {9, 9});
  CHECK(bar.usual == Approx(0.6));
  CHECK(bar.wide == Approx(0.81));
}

TEST_CASE("few errors move a bar a little, none leave it about where it was") {
  const ErrorBar before{0.1, 0.2};
  const ErrorBar of_none = ErrorBarOf({}, before);
  CHECK(of_none.usual == Approx(before.usual).epsilon(0.2));
  CHECK(of_none.wide == Approx(before.wide).epsilon(0.2));
  const ErrorBar of_small = ErrorBarOf({0.01, 0.01, 0.01}, before);
  CHECK(of_small.usual < of_none.usual);
  CHECK(of_small.usual > 0.01);
  CHECK(ErrorBarOf({0.9}, before).wide > of_none.wide);
}

TEST_CASE(
    "a step is told of by steps on the same kinds of devices, and by related ones while these are few") {
  const std::set<std::string> wanted = {"fast", "slow"};
  std::vector<LiveError> live(20, {{"other"}, 0.5});
  live.push_back({{"fast", "slow"}, 0.1});
  live.push_back({{"fast"}, 0.2});
  live.push_back({{"fast", "other"}, 0.3});
  live.push_back({{}, 0.4});
  live.push_back({{"slow", "fast"}, -0.1});
  CHECK(ErrorsThatTell(live, wanted) == std::vector<double>{0.1, -0.1, 0.4, 0.3, 0.2});
  CHECK(ErrorsThatTell(live, {"third"}) == std::vector<double>{0.4});
  live.insert(live.end(), 7, {wanted, 0.1});
  CHECK(ErrorsThatTell(live, wanted).size() == 10);  // 9 and the newest that is related
  CHECK(ErrorsThatTell(live, wanted).back() == 0.4);
  live.insert(live.end(), 7, {wanted, 0.1});
  CHECK(ErrorsThatTell(live, wanted).size() == 16);
}

TEST_CASE("the further a prediction is from what was measured, the wider its bar") {
  for (int i = 0; i < kPredictionBases; ++i) {
    const ErrorBar bar = LearntErrorBar(static_cast<PredictionBasis>(i));
    CHECK(bar.usual > 0);
    CHECK(bar.usual < bar.wide);
  }
  CHECK(LearntErrorBar(PredictionBasis::kOtherShapes).wide <
        LearntErrorBar(PredictionBasis::kOtherKinds).wide);
}

}  // namespace
}  // namespace medley
