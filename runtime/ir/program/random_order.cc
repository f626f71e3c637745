#include "runtime/ir/program/random_order.h"

#include <random>
#include <vector>

namespace medley {
namespace {

using Kind = UnitOp::Kind;

// What is known of a micro-batch at a stage.
struct Progress {
  bool forward = false, of_input = false, of_weights = false;
};

class RandomOrder {
 public:
  RandomOrder(Plan& plan, uint64_t seed) : plan_(plan), random_(seed) {
    for (const Route& route : plan.routes) {
      progress_.emplace_back(route.units.size(), std::vector<Progress>(route.micro_batches));
    }
    for (int u = 0; u < static_cast<int>(plan.units.size()); ++u) {
      visits_.push_back(VisitsOf(plan, u));
      plan.units[u].order.clear();
    }
    in_order_ = Draw(2) == 0;
    splits_percent_ = Draw(3) * 50;
    forward_percent_ = 10 + Draw(90);
  }

  void Run() {
    plan_.schedule = Schedule::kListed;
    std::vector<Choice> gradients, forwards;
    while (true) {
      gradients.clear();
      forwards.clear();
      for (int u = 0; u < static_cast<int>(visits_.size()); ++u) {
        for (int v = 0; v < static_cast<int>(visits_[u].size()); ++v) AddReady(u, v, gradients, forwards);
      }
      if (gradients.empty() && forwards.empty()) return SetPaces();
      const bool forward = gradients.empty() || (!forwards.empty() && Draw(100) < forward_percent_);
      const std::vector<Choice>& choices = forward ? forwards : gradients;
      Take(choices[Draw(static_cast<int>(choices.size()))]);
    }
  }

 private:
  // Of none, of some units alone, which are not looked at, or of all, up to 50 times apart.
  void SetPaces() {
    const int percent = Draw(3) * 50;
    for (Unit& unit : plan_.units) {
      unit.paces.clear();
      if (Draw(100) >= percent) continue;
      for (size_t c = 0; c < unit.chunks.size(); ++c) {
        const int64_t weights = Draw(50);
        unit.paces.push_back(
            {1 + Draw(50), 1 + Draw(50), weights, Draw(static_cast<int>(weights) + 1), Draw(2) * Draw(50)});
      }
    }
  }

  struct Choice {
    UnitId unit;
    UnitOp op;
  };

  int Draw(int below) { return static_cast<int>(random_() % static_cast<uint64_t>(below)); }

  void AddReady(UnitId u, int v, std::vector<Choice>& gradients, std::vector<Choice>& forwards) {
    const Visit& visit = visits_[u][v];
    std::vector<std::vector<Progress>>& route = progress_[visit.route];
    bool first_forward = true, first_gradient = true, first_weights = true;
    for (int m = 0; m < visit.micro_batches; ++m) {
      const Progress& own = route[visit.stage][m];
      if (!own.forward) {
        const bool ready = visit.first() || route[visit.stage - 1][m].forward;
        if (ready && (first_forward || !in_order_)) forwards.push_back({u, {Kind::kForward, v, m}});
        first_forward = false;
      } else if (!own.of_input) {
        const bool ready = visit.last() || route[visit.stage + 1][m].of_input;
        if (ready && (first_gradient || !in_order_)) {
          gradients.push_back(
              {u, {Draw(100) < splits_percent_ ? Kind::kInputGradient : Kind::kBackward, v, m}});
        }
        first_gradient = false;
      } else if (!own.of_weights) {
        if (first_weights || !in_order_) gradients.push_back({u, {Kind::kWeightGradient, v, m}});
        first_weights = false;
      }
    }
  }

  void Take(const Choice& choice) {
    const Visit& visit = visits_[choice.unit][choice.op.visit];
    Progress& own = progress_[visit.route][visit.stage][choice.op.micro_batch];
    const Kind kind = choice.op.kind;
    if (kind == Kind::kForward) own.forward = true;
    if (kind == Kind::kInputGradient || kind == Kind::kBackward) own.of_input = true;
    if (kind == Kind::kWeightGradient || kind == Kind::kBackward) own.of_weights = true;
    plan_.units[choice.unit].order.push_back(choice.op);
  }

  Plan& plan_;
  std::mt19937_64 random_;
  std::vector<Visits> visits_;
  std::vector<std::vector<std::vector<Progress>>> progress_;  // by route, stage, micro-batch
  bool in_order_;
  int splits_percent_, forward_percent_;
};

}  // namespace

void ListRandomOrders(Plan& plan, uint64_t seed) { RandomOrder(plan, seed).Run(); }

}  // namespace medley
