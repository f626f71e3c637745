#include "runtime/ir/program/evaluate_orders.h"

#include <algorithm>

#include "runtime/ir/program/kept_memory.h"

namespace medley {

OrderEvaluator::OrderEvaluator(const PassGraph& graph)
    : graph_(graph), soonest_(graph, Direction::kOnwards), latest_(graph, Direction::kBackwards) {}

OrderTimes OrderEvaluator::Evaluate(const PassOrders& orders) {
  OrderTimes times;
  times.peak_kept = PeakKept(graph_, orders);
  if (!soonest_.RunOrders(orders, std::vector<double>(graph_.units(), 0))) return times;
  times.complete = true;
  std::vector<double> from_end;
  for (int u = 0; u < graph_.units(); ++u) {
    times.end_seconds.push_back(soonest_.FreeAt(u));
    from_end.push_back(-soonest_.FreeAt(u));
  }
  latest_.RunOrders(orders, from_end);
  times.makespan_seconds = times.period_seconds = 0;
  for (int u = 0; u < graph_.units(); ++u) {
    times.begin_seconds.push_back(-latest_.FreeAt(u));
    times.makespan_seconds = std::max(times.makespan_seconds, times.end_seconds[u]);
    times.period_seconds = std::max(times.period_seconds, times.end_seconds[u] - times.begin_seconds[u]);
  }
  return times;
}

OrderTimes EvaluateOrders(const TimedPipeline& pipeline, const std::vector<UnitOrder>& orders) {
  const PassGraph graph(pipeline);
  return OrderEvaluator(graph).Evaluate(PassesOf(graph, orders));
}

std::vector<int> ForwardsBeforeNorms(const TimedPipeline& pipeline, const std::vector<UnitOrder>& orders) {
  const PassGraph graph(pipeline);
  OrderEvaluator evaluator(graph);
  const PassOrders passes = PassesOf(graph, orders);
  const OrderTimes times = evaluator.Evaluate(passes);
  std::vector<int> forwards(pipeline.units);
  if (!times.complete) return forwards;
  for (int u = 0; u < pipeline.units; ++u) {
    for (const int pass : passes.of_unit[u]) {
      const double begins = -evaluator.latest().EndOf(pass) + times.period_seconds;
      if (graph.pass(pass).kind != PassKind::kForward || begins >= times.makespan_seconds) break;
      ++forwards[u];
    }
  }
  return forwards;
}

std::vector<double> PeakKept(const PassGraph& graph, const PassOrders& orders) {
  std::vector<double> peaks;
  for (const std::vector<int>& passes : orders.of_unit) {
    double kept = 0, peak = 0;
    for (const int pass : passes) {
      const bool joined = !orders.joined.empty() && orders.joined[pass] != 0;
      const MemoryChange change =
          MemoryChangeOf(graph.StageOf(pass), graph.pass(pass).kind, joined, Direction::kOnwards);
      kept += change.begin;
      peak = std::max(peak, kept);
      kept += change.end;
    }
    peaks.push_back(peak);
  }
  return peaks;
}

std::vector<double> PeakInBuffers(const PassGraph& graph, const PassOrders& orders) {
  std::vector<double> peaks;
  for (int u = 0; u < graph.units(); ++u) {
    KeptBuffers buffers(graph, u);
    for (const int pass : orders.of_unit[u]) {
      const bool joined = !orders.joined.empty() && orders.joined[pass] != 0;
      buffers.Run(graph.StageOf(pass), graph.pass(pass).kind, joined, Direction::kOnwards);
    }
    peaks.push_back(buffers.total());
  }
  return peaks;
}

}  // namespace medley
