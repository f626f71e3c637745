#include "runtime/ir/plan/order_text.h"

#include <catch2/catch.hpp>
#include <random>

namespace medley {
namespace {

using Kind = UnitOp::Kind;

TEST_CASE("an order is written with ranges and visits, and read back") {
  const UnitOrder order = {{Kind::kForward, 0, 0},        {Kind::kForward, 0, 1},
                           {Kind::kForward, 1, 0},        {Kind::kInputGradient, 1, 0},
                           {Kind::kWeightGradient, 1, 0}, {Kind::kBackward, 0, 1},
                           {Kind::kBackward, 0, 0}};
  CHECK(FormatOrder(order) == "F0-1 F1:0 I1:0 W1:0 B1 B0");
  CHECK(*ParseOrder("F0-1 F1:0 I1:0 W1:0 B1 B0") == order);
  CHECK(*ParseOrder("  F0 F0:1\n F1:0\tI1:0 W1:0 B1 B0 ") == order);
  CHECK(FormatOrder({}).empty());
  CHECK(ParseOrder("")->empty());
}

TEST_CASE("any order survives the text", "[property]") {
  const uint64_t seed = GENERATE(range(uint64_t{0}, uint64_t{100}));
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  UnitOrder order;
  for (size_t passes = random() % 200; passes > 0; --passes) {
    constexpr Kind kKinds[] = {Kind::kForward, Kind::kBackward, Kind::kInputGradient, Kind::kWeightGradient};
    order.push_back({kKinds[random() % 4], static_cast<int>(random() % 2), static_cast<int>(random() % 5)});
  }
  CHECK(*ParseOrder(FormatOrder(order)) == order);
}

TEST_CASE("a word that is no pass is refused and named") {
  const auto word =
      GENERATE(as<std::string>(), "X0", "F", "F-1", "F0-", "F3-3", "F4-2", "F:0", "F1:", "F0x", "f0",
               "F1:2:3", "F0.5", "F1000001", "F99999999999999999999", "0", "F+1", "F0-1-2", "-", "F 0");
  CAPTURE(word);
  const absl::Status status = ParseOrder("F0 I0 " + word).status();
  CHECK(absl::IsInvalidArgument(status));
  CHECK(std::string(status.message()).find("\" is no pass; one is a letter (F, B, I or W)") !=
        std::string::npos);
}

TEST_CASE("an order that would not end is refused") {
  CHECK(ParseOrder("F0-1000000")->size() == 1000001);
  CHECK(ParseOrder("F0-1000000 I0-1000000 W0-1000000").status().message() == "has more than 1048576 passes");
}

}  // namespace
}  // namespace medley
