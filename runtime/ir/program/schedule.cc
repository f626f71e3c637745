#include "runtime/ir/program/schedule.h"

#include <algorithm>

namespace medley {
namespace {

using Kind = UnitOp::Kind;

// `warmup` forwards, then forward and backward in turn, then what is left of the backwards.
std::vector<UnitOp> WarmUpThenAlternate(int warmup, int micro_batches) {
  std::vector<UnitOp> order;
  order.reserve(2 * micro_batches);
  const auto add = [&](Kind kind, int m) { order.push_back({.kind = kind, .micro_batch = m}); };
  for (int m = 0; m < warmup; ++m) add(Kind::kForward, m);
  for (int m = warmup; m < micro_batches; ++m) {
    add(Kind::kForward, m);
    add(Kind::kBackward, m - warmup);
  }
  for (int m = micro_batches - warmup; m < micro_batches; ++m) add(Kind::kBackward, m);
  return order;
}

// The same with each backward in two, of which the second comes when `most_deferred` others wait.
std::vector<UnitOp> WithDeferredWeights(const std::vector<UnitOp>& alternating, int most_deferred) {
  std::vector<UnitOp> order;
  order.reserve(alternating.size() * 3 / 2);
  int inputs = 0, weights = 0;
  for (const UnitOp& op : alternating) {
    if (op.kind == Kind::kForward) {
      order.push_back(op);
      continue;
    }
    order.push_back({.kind = Kind::kInputGradient, .micro_batch = inputs++});
    if (inputs - weights > most_deferred)
      order.push_back({.kind = Kind::kWeightGradient, .micro_batch = weights++});
  }
  while (weights < inputs) order.push_back({.kind = Kind::kWeightGradient, .micro_batch = weights++});
  return order;
}

bool PassesUnitsOnce(const Plan& plan) {
  std::vector<bool> passed(plan.units.size(), false);
  for (const Route& route : plan.routes) {
    for (const UnitId unit : route.units) {
      if (passed[unit]) return false;
      passed[unit] = true;
    }
  }
  return true;
}

// All units of a plan in virtual time: see OrderOfUnit.
class ListScheduler {
 public:
  explicit ListScheduler(const Plan& plan)
      : plan_(plan),
        free_at_(plan.units.size(), 0),
        ops_(plan.units.size()),
        forwards_left_(plan.units.size(), 0) {
    for (const Route& route : plan.routes)
      ends_.emplace_back(route.units.size(), StageEnds(route.micro_batches));
    for (int u = 0; u < static_cast<int>(plan.units.size()); ++u) {
      visits_.push_back(VisitsOf(plan, u));
      for (const Visit& visit : visits_.back()) forwards_left_[u] += visit.micro_batches;
    }
  }

  std::vector<std::vector<UnitOp>> Run() {
    RunPasses();
    std::vector<std::vector<UnitOp>> orders;
    for (std::vector<TimedOp>& ops : ops_) {
      // What arrives at a moment comes before what begins then.
      std::stable_sort(ops.begin(), ops.end(), [](const TimedOp& a, const TimedOp& b) {
        return a.at != b.at ? a.at < b.at : !IsPass(a.op.kind) && IsPass(b.op.kind);
      });
      std::vector<UnitOp>& order = orders.emplace_back();
      for (const TimedOp& op : ops) order.push_back(op.op);
    }
    return orders;
  }

 private:
  static bool IsPass(Kind kind) { return kind != Kind::kReceiveActivation && kind != Kind::kReceiveGradient; }
  struct TimedOp {
    double at;
    UnitOp op;
  };

  bool splits() const { return plan_.schedule == Schedule::kZeroBubbleH1; }

  void RunPasses() {
    const std::vector<Kind> kinds =
        splits() ? std::vector<Kind>{Kind::kInputGradient, Kind::kForward, Kind::kWeightGradient}
                 : std::vector<Kind>{Kind::kBackward, Kind::kForward};
    while (true) {
      Choice best;
      for (int u = 0; u < static_cast<int>(visits_.size()); ++u) {
        for (int v = 0; v < static_cast<int>(visits_[u].size()); ++v) {
          for (const Kind kind : kinds) Consider(u, v, kind, best);
        }
      }
      if (best.unit < 0) return;
      Take(best);
    }
  }

  struct StageEnds {
    explicit StageEnds(int micro_batches) : forward(micro_batches, -1), backward(micro_batches, -1) {}
    std::vector<double> forward, backward;  // when each micro-batch's ended, for others; -1: it has not run
    int forwards = 0, backwards = 0, weights = 0;
  };
  struct Choice {
    UnitId unit;
    int visit = 0;
    Kind kind = Kind::kForward;
    double start = 0;
  };

  StageEnds& EndsOf(const Visit& visit) { return ends_[visit.route][visit.stage]; }

  void Consider(UnitId u, int v, Kind kind, Choice& best) {
    const Visit& visit = visits_[u][v];
    const StageEnds& own = EndsOf(visit);
    const bool gpipe = plan_.schedule == Schedule::kGPipe;
    double ready = -1;
    if (kind == Kind::kForward) {
      const int next = own.forwards;
      if (next == visit.micro_batches) return;
      if (!gpipe && own.forwards - own.backwards >= visit.stages - visit.stage) return;
      if (splits() && own.forwards - own.weights >= visit.stages) return;
      ready = visit.first() ? 0 : ends_[visit.route][visit.stage - 1].forward[next];
    } else if (kind == Kind::kWeightGradient) {
      if (own.weights == own.backwards) return;
      ready = own.backward[own.weights];
    } else {
      const int next = own.backwards;
      if (next >= own.forwards || (gpipe && forwards_left_[u] > 0)) return;
      ready = visit.last() ? own.forward[next] : ends_[visit.route][visit.stage + 1].backward[next];
    }
    if (ready < 0) return;
    const Choice choice{u, v, kind, std::max(free_at_[u], ready)};
    if (best.unit < 0 || choice.start < best.start ||
        (choice.start == best.start && choice.unit == best.unit && Precedes(choice, best))) {
      best = choice;
    }
  }

  // What others wait for comes first, what nobody does last.
  static int PrecedenceOf(Kind kind) {
    return kind == Kind::kWeightGradient ? 2 : kind == Kind::kForward ? 1 : 0;
  }

  bool Precedes(const Choice& a, const Choice& b) const {
    if (a.kind != b.kind) return PrecedenceOf(a.kind) < PrecedenceOf(b.kind);
    const Visit &x = visits_[a.unit][a.visit], &y = visits_[b.unit][b.visit];
    return x.stages - x.stage < y.stages - y.stage;
  }

  void Take(const Choice& choice) {
    const Visit& visit = visits_[choice.unit][choice.visit];
    StageEnds& own = EndsOf(visit);
    const bool forward = choice.kind == Kind::kForward, weights = choice.kind == Kind::kWeightGradient;
    const int micro_batch = forward ? own.forwards++ : weights ? own.weights++ : own.backwards++;
    const double work = (choice.kind == Kind::kBackward ? 2.0 : 1.0) * visit.micro_batch_sequences *
                        plan_.units[choice.unit].chunks[visit.chunk].size();
    free_at_[choice.unit] = choice.start + work;
    if (!weights) (forward ? own.forward : own.backward)[micro_batch] = choice.start + work;
    forwards_left_[choice.unit] -= forward ? 1 : 0;
    ops_[choice.unit].push_back({choice.start, {choice.kind, choice.visit, micro_batch}});
    if (weights) return;
    if (forward && !visit.first()) {
      const double sent = ends_[visit.route][visit.stage - 1].forward[micro_batch];
      ops_[choice.unit].push_back({sent, {Kind::kReceiveActivation, choice.visit, micro_batch}});
    }
    if (!forward && !visit.last()) {
      const double sent = ends_[visit.route][visit.stage + 1].backward[micro_batch];
      ops_[choice.unit].push_back({sent, {Kind::kReceiveGradient, choice.visit, micro_batch}});
    }
  }

  const Plan& plan_;
  std::vector<Visits> visits_;                // of each unit
  std::vector<std::vector<StageEnds>> ends_;  // of each route, by stage
  std::vector<double> free_at_;               // of each unit
  std::vector<std::vector<TimedOp>> ops_;     // of each unit
  std::vector<int> forwards_left_;            // of each unit
};

}  // namespace

std::vector<UnitOp> OrderOfUnit(const Plan& plan, UnitId unit, const Visits& visits) {
  if (!PassesUnitsOnce(plan)) return ListScheduler(plan).Run()[unit];
  const Visit& visit = visits.front();
  std::vector<UnitOp> order;
  order.reserve(4 * visit.micro_batches);
  for (const UnitOp& op : OrderOf(plan.schedule, visit.stage, visit.stages, visit.micro_batches)) {
    const bool forward = op.kind == Kind::kForward;
    const bool receives = forward ? !visit.first() : !visit.last() && op.kind != Kind::kWeightGradient;
    if (receives)
      order.push_back({forward ? Kind::kReceiveActivation : Kind::kReceiveGradient, 0, op.micro_batch});
    order.push_back(op);
  }
  return order;
}

std::vector<UnitOp> OrderOf(Schedule schedule, StageId stage, int stages, int micro_batches) {
  const auto alternating = [&] {
    return WarmUpThenAlternate(std::min(stages - stage - 1, micro_batches), micro_batches);
  };
  switch (schedule) {
    case Schedule::kOneForwardOneBackward:
      return alternating();
    case Schedule::kGPipe:
      return WarmUpThenAlternate(micro_batches, micro_batches);
    case Schedule::kZeroBubbleH1:
      return WithDeferredWeights(alternating(), stage);
  }
  return {};
}

double LeastPassesSeconds(Schedule schedule, const StageWork& stage) {
  const double m = stage.micro_batches, both = stage.forward_seconds + stage.backward_seconds;
  // It computes all the time, or its messages follow each other without a pause.
  const double least = std::max(m * both, stage.round_trip_seconds + (m - 1) * stage.message_seconds);
  switch (schedule) {
    case Schedule::kOneForwardOneBackward: {
      // Only `alive` forwards come before the first backward, and a forward waits for the backward `alive`
      // earlier.
      const int alive = std::min(stage.from_end, stage.micro_batches);
      return std::max(
          {least,
           stage.round_trip_seconds + (m - alive) * stage.forward_seconds + (m - 1) * stage.backward_seconds,
           stage.round_trip_seconds * (1 + (stage.micro_batches - 1) / alive)});
    }
    case Schedule::kGPipe:
      // All forwards, the last one's round trip, all backwards.
      return std::max(least, stage.round_trip_seconds + (m - 1) * both);
    case Schedule::kZeroBubbleH1:
      // A round trip is shorter than said: the weights' gradients are no part of it.
      return m * both;
  }
  return least;
}

}  // namespace medley
