#include "runtime/ir/program/pass_graph.h"

namespace medley {

PassGraph::PassGraph(const TimedPipeline& pipeline) : stages_of_(pipeline.units) {
  std::vector<double> message_seconds;  // of each stage
  for (int r = 0; r < static_cast<int>(pipeline.routes.size()); ++r) {
    const TimedRoute& route = pipeline.routes[r];
    for (int s = 0; s < static_cast<int>(route.stages.size()); ++s) {
      const TimedStage& timed = route.stages[s];
      std::vector<int>& visits = stages_of_[timed.unit];
      const Stage stage = {
          .unit = timed.unit,
          .visit = static_cast<int>(visits.size()),
          .chunk = timed.chunk,
          .route = r,
          .stage = s,
          .stages = static_cast<int>(route.stages.size()),
          .micro_batches = route.micro_batches,
          .first_pass = passes(),
          .seconds = {timed.forward_seconds, timed.input_gradient_seconds, timed.weight_gradient_seconds},
          .split_seconds = timed.split_seconds,
          .kept = timed.kept,
          .deferred = timed.deferred};
      visits.push_back(static_cast<int>(stages_.size()));
      for (int k = 0; k < kPassKinds; ++k) {
        for (int m = 0; m < route.micro_batches; ++m) {
          passes_.push_back({static_cast<int>(stages_.size()), static_cast<PassKind>(k), m});
          seconds_.push_back(stage.seconds[k]);
        }
      }
      stages_.push_back(stage);
      message_seconds.push_back(timed.message_seconds);
    }
  }
  for (std::vector<Waits>& waits : waits_) waits.resize(passes_.size());
  for (int s = 0; s < static_cast<int>(stages_.size()); ++s) {
    for (int m = 0; m < stages_[s].micro_batches; ++m) FindWaits(s, m, message_seconds);
  }
}

void PassGraph::FindWaits(int s, int m, const std::vector<double>& message_seconds) {
  const int forward = PassOf(s, PassKind::kForward, m);
  const int of_input = PassOf(s, PassKind::kInputGradient, m);
  const int of_weights = PassOf(s, PassKind::kWeightGradient, m);
  // Each wait of one direction is one of the other.
  const auto wait = [&](int later, int earlier, double seconds) {
    waits_[static_cast<int>(Direction::kOnwards)][later] = {{earlier, -1}, {seconds, 0}};
    Waits& backwards = waits_[static_cast<int>(Direction::kBackwards)][earlier];
    const int slot = backwards.passes[0] < 0 ? 0 : 1;
    backwards.passes[slot] = later;
    backwards.seconds[slot] = seconds;
  };
  wait(of_weights, of_input, 0);
  if (stages_[s].last()) {
    wait(of_input, forward, 0);
    return;
  }
  wait(PassOf(s + 1, PassKind::kForward, m), forward, message_seconds[s]);
  wait(of_input, PassOf(s + 1, PassKind::kInputGradient, m), message_seconds[s]);
}

std::vector<UnitOrder> OpsOf(const PassGraph& graph, const PassOrders& orders) {
  std::vector<UnitOrder> ops;
  for (const std::vector<int>& passes : orders.of_unit) {
    UnitOrder& order = ops.emplace_back();
    order.reserve(passes.size());
    for (const int pass : passes) {
      const PassKind kind = graph.pass(pass).kind;
      const bool joined = !orders.joined.empty() && orders.joined[pass] != 0;
      order.push_back({kind == PassKind::kForward          ? UnitOp::Kind::kForward
                       : kind == PassKind::kWeightGradient ? UnitOp::Kind::kWeightGradient
                       : joined                            ? UnitOp::Kind::kBackward
                                                           : UnitOp::Kind::kInputGradient,
                       graph.StageOf(pass).visit, graph.pass(pass).micro_batch});
    }
  }
  return ops;
}

PassOrders PassesOf(const PassGraph& graph, const std::vector<UnitOrder>& orders) {
  PassOrders passes;
  for (int u = 0; u < static_cast<int>(orders.size()); ++u) {
    std::vector<int>& of_unit = passes.of_unit.emplace_back();
    of_unit.reserve(orders[u].size());
    for (const UnitOp& op : orders[u]) {
      const PassKind kind = op.kind == UnitOp::Kind::kForward          ? PassKind::kForward
                            : op.kind == UnitOp::Kind::kWeightGradient ? PassKind::kWeightGradient
                                                                       : PassKind::kInputGradient;
      of_unit.push_back(graph.PassOf(graph.StagesOf(u)[op.visit], kind, op.micro_batch));
      if (op.kind != UnitOp::Kind::kBackward) continue;
      if (passes.joined.empty()) passes.joined.assign(graph.passes(), 0);
      passes.joined[of_unit.back()] = 1;
    }
  }
  return passes;
}

}  // namespace medley
