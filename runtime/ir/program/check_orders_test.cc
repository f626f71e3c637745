#include "runtime/ir/program/check_orders.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <random>

#include "runtime/ir/plan/order_text.h"
#include "runtime/ir/program/random_order.h"
#include "runtime/ir/program/random_plan.h"
#include "runtime/ir/program/schedule.h"

namespace medley {
namespace {

using Kind = UnitOp::Kind;

UnitOrder Order(const std::string& text) { return *ParseOrder(text); }

// Two stages; three micro-batches.
Plan Good() {
  Plan plan{.schedule = Schedule::kListed};
  plan.units = {{{"a/0"}, {{0, 2}}}, {{"b/0"}, {{2, 4}}}};
  plan.units[0].order = Order("F0-1 B0 F2 I1 W1 B2");
  plan.units[1].order = Order("F0 I0 F1 I1 W0 F2 B2 W1");
  plan.routes = {{{0, 1}, 3, 1}};
  return plan;
}

TEST_CASE("orders that are complete and do not wait for each other are in order") {
  CHECK(OrderObjections(Good()).empty());
}

TEST_CASE("what is wrong with an order is told by its place, the pass and what is allowed") {
  struct Case {
    std::string name;
    std::function<void(Plan&)> change;
    std::string objection;
  };
  const auto c = GENERATE(values<Case>({
      {"no such visit", [](Plan& p) { p.units[1].order[2].visit = 1; },
       "units[1].order[2]: F1:1 is of visit 1; routes pass the unit 1 times, allowed are 0 to 0"},
      {"no such micro-batch", [](Plan& p) { p.units[0].order[3].micro_batch = 3; },
       "units[0].order[3]: F3 is of micro-batch 3; allowed are those of routes[0], 0 to 2"},
      {"twice", [](Plan& p) { p.units[0].order = Order("F0-1 B0 F1 I1 W1 B2"); },
       "units[0].order[3]: F1 comes a second time"},
      {"whole and in two", [](Plan& p) { p.units[0].order = Order("F0-1 B0 F2 I1 W1 B2 W2"); },
       "units[0].order[7]: W2 comes a second time"},
      {"half a backward again", [](Plan& p) { p.units[0].order = Order("F0-1 B0 F2 I1 B1 B2"); },
       "units[0].order[5]: B1 comes a second time"},
      {"backward before forward", [](Plan& p) { p.units[0].order = Order("F0-1 B0 I2 F2 I1 W1 W2"); },
       "units[0].order[3]: I2 comes before the forward of its micro-batch"},
      {"weights before input", [](Plan& p) { p.units[0].order = Order("F0-1 B0 F2 W1 I1 B2"); },
       "units[0].order[4]: W1 comes before the input gradient of its micro-batch"},
      {"a forward misses", [](Plan& p) { p.units[0].order = Order("F0-1 B0 I1 W1"); },
       "units[0].order[5]: ends without F2; every micro-batch of every visit needs a forward and a backward, "
       "whole (B) or in two (I, W)"},
      {"a backward misses", [](Plan& p) { p.units[0].order = Order("F0-1 B0 F2 I1 W1"); },
       "units[0].order[6]: ends without B2"},
      {"half a backward misses", [](Plan& p) { p.units[0].order = Order("F0-1 B0 F2 I1 B2"); },
       "units[0].order[6]: ends without W1"},
      {"no order", [](Plan& p) { p.units[1].order.clear(); }, "units[1].order[0]: ends without F0"},
      {"a message", [](Plan& p) { p.units[1].order[0].kind = Kind::kReceiveActivation; },
       "units[1].order[0]: ?0 is no pass; what passes need is received by itself"},
      {"another schedule", [](Plan& p) { p.schedule = Schedule::kGPipe; },
       "units[0].order: has 7 passes; must be empty unless the schedule is listed, and it is gpipe"},
      {"paces of another schedule",
       [](Plan& p) {
         p.schedule = Schedule::kGPipe;
         p.units[0].order.clear();
         p.units[1].order.clear();
         p.units[1].paces = {{}};
       },
       "units[1].paces: has 1; must be empty unless the schedule is listed, and it is gpipe"},
      {"paces of other ranges",
       [](Plan& p) {
         p.units[1].paces = {{}, {}};
       },
       "units[1].paces: has 2; must have one for each of its 1 ranges of blocks"},
      {"a pace of nothing", [](Plan& p) { p.units[1].paces = {{.forward_nanoseconds = 0}}; },
       "units[1].paces[0].forward_nanoseconds: 0; allowed are 1 to 1000000000000"},
      {"a pace of ages", [](Plan& p) { p.units[1].paces = {{.message_nanoseconds = Pace::kMost + 1}}; },
       "units[1].paces[0].message_nanoseconds: 1000000000001; allowed are 0 to 1000000000000"},
      {"a split that takes more than is split",
       [](Plan& p) { p.units[0].paces = {{.weight_gradient_nanoseconds = 3, .split_nanoseconds = 4}}; },
       "units[0].paces[0].split_nanoseconds: 4; allowed are 0 to 3"},
  }));
  CAPTURE(c.name);
  Plan plan = Good();
  c.change(plan);
  const std::vector<std::string> objections = OrderObjections(plan);
  CAPTURE(objections);
  CHECK(std::any_of(objections.begin(), objections.end(),
                    [&](const std::string& objection) { return objection.find(c.objection) == 0; }));
}

TEST_CASE("orders that wait for each other are told by where each stands") {
  Plan plan = Good();
  plan.units[0].order = Order("F0 B0 F1-2 B1-2");
  plan.units[1].order = Order("F0-2 B0-2");
  CHECK(OrderObjections(plan) ==
        std::vector<std::string>{
            "units[0].order[1]: B0 waits for the input gradient of micro-batch 0 in units[1], "
            "which stands at order[1]: the orders wait for each other",
            "units[1].order[1]: F1 waits for the forward of micro-batch 1 in units[0], which "
            "stands at order[1]: the orders wait for each other"});
}

TEST_CASE("random orders are in order, and a pass left out, doubled or put before its forward is told",
          "[property]") {
  const uint64_t seed = GENERATE(range(uint64_t{0}, uint64_t{200}));
  CAPTURE(seed);
  Plan plan = (seed % 2 == 0 ? RandomPlan(seed) : RandomWidePlan(seed)).plan;
  ListRandomOrders(plan, seed);
  CHECK(OrderObjections(plan).empty());
  std::mt19937_64 random(seed);
  const auto spoilt = [&](const auto& spoil) {
    Plan other = plan;
    UnitOrder& order = other.units[random() % other.units.size()].order;
    spoil(order, static_cast<int>(random() % order.size()));
    return !OrderObjections(other).empty();
  };
  CHECK(spoilt([](UnitOrder& order, int i) { order.erase(order.begin() + i); }));
  CHECK(spoilt([](UnitOrder& order, int i) { order.push_back(order[i]); }));
  CHECK(spoilt([](UnitOrder& order, int) { std::rotate(order.begin(), order.end() - 1, order.end()); }));
}

TEST_CASE("every schedule with a name may be listed, whatever units routes pass", "[property]") {
  const uint64_t seed = GENERATE(range(uint64_t{0}, uint64_t{100}));
  CAPTURE(seed);
  Plan plan = (seed % 2 == 0 ? RandomPlan(seed) : RandomWidePlan(seed)).plan;
  for (int s = 0; s < kSchedules; ++s) {
    const Schedule schedule = static_cast<Schedule>(s);
    if (schedule == Schedule::kListed) continue;
    CAPTURE(NameOf(schedule));
    const std::vector<UnitOrder> orders = ScheduleOrders(schedule, NominalPipeline(plan));
    plan.schedule = Schedule::kListed;
    for (size_t u = 0; u < plan.units.size(); ++u) plan.units[u].order = orders[u];
    CHECK(OrderObjections(plan).empty());
    for (int u = 0; u < static_cast<int>(plan.units.size()); ++u) {
      UnitOrder passes = OrderOfUnit(plan, u, VisitsOf(plan, u));
      std::erase_if(passes, [](const UnitOp& op) { return !IsPass(op.kind); });
      CHECK(passes == orders[u]);
    }
  }
}

}  // namespace
}  // namespace medley
