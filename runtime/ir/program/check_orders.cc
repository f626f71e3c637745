#include "runtime/ir/program/check_orders.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "runtime/ir/plan/order_text.h"
#include "runtime/ir/program/pass_simulation.h"

namespace medley {
namespace {

using Kind = UnitOp::Kind;

std::string PlaceOf(UnitId unit, size_t index) {
  return absl::StrCat("units[", unit.value(), "].order[", index, "]");
}

// The order of one unit by itself.
class UnitCheck {
 public:
  UnitCheck(const Plan& plan, UnitId unit)
      : unit_(unit), order_(plan.units[unit].order), visits_(VisitsOf(plan, unit)) {
    for (const Visit& visit : visits_) done_.emplace_back(visit.micro_batches);
  }

  std::vector<std::string> Run() {
    // One says enough: others may follow from it.
    for (size_t i = 0; i < order_.size() && objections_.empty(); ++i) Check(i);
    for (size_t v = 0; v < visits_.size() && objections_.empty(); ++v) CheckComplete(static_cast<int>(v));
    return objections_;
  }

 private:
  struct Done {
    bool forward = false, of_input = false, of_weights = false;
  };

  void Object(size_t i, const std::string& why) {
    objections_.push_back(absl::StrCat(PlaceOf(unit_, i), ": ", FormatPass(order_[i]), " ", why));
  }

  void Check(size_t i) {
    const UnitOp& op = order_[i];
    if (!IsPass(op.kind)) return Object(i, "is no pass; what passes need is received by itself");
    if (op.visit < 0 || op.visit >= static_cast<int>(visits_.size())) {
      return Object(i, absl::StrCat("is of visit ", op.visit, "; routes pass the unit ", visits_.size(),
                                    " times, allowed are 0 to ", static_cast<int>(visits_.size()) - 1));
    }
    const int micro_batches = visits_[op.visit].micro_batches;
    if (op.micro_batch < 0 || op.micro_batch >= micro_batches) {
      return Object(i, absl::StrCat("is of micro-batch ", op.micro_batch, "; allowed are those of routes[",
                                    visits_[op.visit].route, "], 0 to ", micro_batches - 1));
    }
    Done& done = done_[op.visit][op.micro_batch];
    const auto run = [&](bool& part, bool ready, const char* needed) {
      if (part) return Object(i, "comes a second time");
      if (!ready) return Object(i, absl::StrCat("comes before the ", needed, " of its micro-batch"));
      part = true;
    };
    switch (op.kind) {
      case Kind::kForward:
        return run(done.forward, true, "");
      case Kind::kInputGradient:
        return run(done.of_input, done.forward, "forward");
      case Kind::kWeightGradient:
        return run(done.of_weights, done.of_input, "input gradient");
      case Kind::kBackward:
        if (done.of_weights) return Object(i, "comes a second time");
        run(done.of_input, done.forward, "forward");
        done.of_weights = done.of_input;
        return;
      case Kind::kReceiveActivation:
      case Kind::kReceiveGradient:
        return;
    }
  }

  void CheckComplete(int visit) {
    for (int m = 0; m < visits_[visit].micro_batches; ++m) {
      const Done& done = done_[visit][m];
      if (done.forward && done.of_weights) continue;
      const Kind missing = !done.forward    ? Kind::kForward
                           : !done.of_input ? Kind::kBackward
                                            : Kind::kWeightGradient;
      objections_.push_back(absl::StrCat(
          PlaceOf(unit_, order_.size()), ": ends without ", FormatPass({missing, visit, m}),
          "; every micro-batch of every visit needs a forward and a backward, whole (B) or in two (I, W)"));
      return;
    }
  }

  const UnitId unit_;
  const UnitOrder& order_;
  const Visits visits_;
  std::vector<std::vector<Done>> done_;  // by visit and micro-batch
  std::vector<std::string> objections_;
};

// All orders together, each complete by itself.
std::vector<std::string> WaitingForEachOther(const Plan& plan) {
  const PassGraph graph(NominalPipeline(plan));
  std::vector<UnitOrder> orders;
  for (const Unit& unit : plan.units) orders.push_back(unit.order);
  const PassOrders passes = PassesOf(graph, orders);
  PassSimulation simulation(graph, Direction::kOnwards);
  if (simulation.RunOrders(passes, std::vector<double>(graph.units(), 0))) return {};
  std::vector<std::string> waiting;
  for (int u = 0; u < graph.units(); ++u) {
    const size_t at = simulation.RunOf(u);
    if (at == orders[u].size()) continue;
    // What it waits for is another unit's, for its own come in order.
    const int needed = graph.WaitsOf(passes.of_unit[u][at], Direction::kOnwards).passes[0];
    const PassGraph::Stage& stage = graph.StageOf(needed);
    const bool forward = graph.pass(needed).kind == PassKind::kForward;
    waiting.push_back(absl::StrCat(PlaceOf(u, at), ": ", FormatPass(orders[u][at]), " waits for the ",
                                   forward ? "forward" : "input gradient", " of micro-batch ",
                                   graph.pass(needed).micro_batch, " in units[", stage.unit.value(),
                                   "], which stands at order[", simulation.RunOf(stage.unit),
                                   "]: the orders wait for each other"));
  }
  return waiting;
}

std::vector<std::string> PaceObjections(const Plan& plan) {
  std::vector<std::string> objections;
  for (size_t u = 0; u < plan.units.size(); ++u) {
    const Unit& unit = plan.units[u];
    const std::string place = absl::StrCat("units[", u, "].paces");
    if (unit.paces.empty()) continue;
    if (plan.schedule != Schedule::kListed) {
      objections.push_back(absl::StrCat(place, ": has ", unit.paces.size(),
                                        "; must be empty unless the schedule is listed, and it is ",
                                        NameOf(plan.schedule)));
    } else if (unit.paces.size() != unit.chunks.size()) {
      objections.push_back(absl::StrCat(place, ": has ", unit.paces.size(),
                                        "; must have one for each of its ", unit.chunks.size(),
                                        " ranges of blocks"));
    } else {
      for (size_t c = 0; c < unit.paces.size(); ++c) {
        const Pace& pace = unit.paces[c];
        const auto check = [&](const char* name, int64_t value, int64_t least, int64_t most) {
          if (value >= least && value <= most) return;
          objections.push_back(absl::StrCat(place, "[", c, "].", name, "_nanoseconds: ", value,
                                            "; allowed are ", least, " to ", most));
        };
        check("forward", pace.forward_nanoseconds, 1, Pace::kMost);
        check("input_gradient", pace.input_gradient_nanoseconds, 1, Pace::kMost);
        check("weight_gradient", pace.weight_gradient_nanoseconds, 0, Pace::kMost);
        check("split", pace.split_nanoseconds, 0, std::max<int64_t>(0, pace.weight_gradient_nanoseconds));
        check("message", pace.message_nanoseconds, 0, Pace::kMost);
      }
    }
  }
  return objections;
}

}  // namespace

std::vector<std::string> OrderObjections(const Plan& plan) {
  std::vector<std::string> objections = PaceObjections(plan);
  for (int u = 0; u < static_cast<int>(plan.units.size()); ++u) {
    if (plan.schedule != Schedule::kListed) {
      if (plan.units[u].order.empty()) continue;
      objections.push_back(absl::StrCat("units[", u, "].order: has ", plan.units[u].order.size(),
                                        " passes; must be empty unless the schedule is listed, and it is ",
                                        NameOf(plan.schedule)));
      continue;
    }
    for (std::string& objection : UnitCheck(plan, u).Run()) objections.push_back(std::move(objection));
  }
  if (objections.empty() && plan.schedule == Schedule::kListed) return WaitingForEachOther(plan);
  return objections;
}

}  // namespace medley
