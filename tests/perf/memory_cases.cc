#include "tests/perf/memory_cases.h"

#include <initializer_list>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/ir/program/random_order.h"

namespace medley {
namespace {

using Ranges = absl::InlinedVector<BlockRange, 1>;

// Builds a plan unit by unit; devices are numbered.
class PlanBuilder {
 public:
  PlanBuilder(Dtype activations, Schedule schedule) : activations_(activations) { plan_.schedule = schedule; }

  PlanBuilder& AddUnit(Ranges chunks, int degree = 1) {
    Unit unit{.chunks = std::move(chunks), .activations = activations_};
    for (int i = 0; i < degree; ++i) unit.devices.push_back(absl::StrCat("test/", devices_++));
    plan_.units.push_back(std::move(unit));
    return *this;
  }
  PlanBuilder& AddRoute(std::vector<UnitId> units, int micro_batches, int micro_batch_sequences) {
    plan_.routes.push_back({std::move(units), micro_batches, micro_batch_sequences});
    return *this;
  }
  Plan& plan() { return plan_; }

 private:
  const Dtype activations_;
  int devices_ = 0;
  Plan plan_;
};

// Of a unit of two: a quarter and three quarters of heads, columns and tokens.
std::vector<ModelShare> UnevenShares(const ModelConfig& model) {
  const ModelShare whole = WholeModel(model);
  const auto cut = [](IndexRange all) {
    const int at = all.first + all.size() / 4;
    return std::pair(IndexRange{all.first, at}, IndexRange{at, all.end});
  };
  const auto [heads, more_heads] = cut(whole.key_value_heads);
  const auto [columns, more_columns] = cut(whole.feed_forward);
  const auto [tokens, more_tokens] = cut(whole.vocabulary);
  return {{heads, columns, tokens}, {more_heads, more_columns, more_tokens}};
}

}  // namespace

std::vector<NamedPlan> PlansOfEveryKind(const TrainingShape& shape, Dtype activations, Dtype other) {
  std::vector<NamedPlan> plans;
  const auto builder = [&](Schedule schedule = Schedule::kOneForwardOneBackward) {
    return PlanBuilder(activations, schedule);
  };
  const auto add = [&](std::string name, const Plan& plan) { plans.push_back({std::move(name), plan}); };
  const auto alone = [&](int size) {
    return builder().AddUnit({{0, 6}}).AddRoute({0}, shape.global_batch_sequences / size, size).plan();
  };
  for (const int size : {1, 2, 4}) add(absl::StrCat("alone, micro-batches of ", size), alone(size));
  for (const Recompute recompute : {Recompute::kLayers, Recompute::kAllButAttention}) {
    Plan plan = alone(2);
    plan.units[0].recompute = recompute;
    add(recompute == Recompute::kLayers ? "alone, layers recomputed" : "alone, all but attention recomputed",
        plan);
  }
  Plan some_recomputed = alone(2);
  some_recomputed.units[0].recompute = Recompute::kLayers;
  some_recomputed.units[0].recomputed_layers = 3;
  add("alone, three of its layers recomputed", some_recomputed);

  const auto pipeline = [&](Schedule schedule) {
    return builder(schedule)
        .AddUnit({{0, 2}})
        .AddUnit({{2, 4}})
        .AddUnit({{4, 6}})
        .AddRoute({0, 1, 2}, 4, 2)
        .plan();
  };
  for (const Schedule schedule :
       {Schedule::kOneForwardOneBackward, Schedule::kGPipe, Schedule::kZeroBubbleH1}) {
    add("three stages, " + NameOf(schedule), pipeline(schedule));
  }
  Plan plan = pipeline(Schedule::kOneForwardOneBackward);
  ListRandomOrders(plan, 7);
  add("three stages, listed", plan);
  plan.post_validation = true;
  add("three stages, listed, steps that stand staggered", plan);
  plan = pipeline(Schedule::kOneForwardOneBackward);
  plan.units[1].recompute = Recompute::kLayers;
  plan.units[2].activations = other;
  add("three stages, the second recomputed, the third of another type", plan);
  add("the embedding alone, the head alone",
      builder().AddUnit({{0, 1}}).AddUnit({{1, 5}}).AddUnit({{5, 6}}).AddRoute({0, 1, 2}, 4, 2).plan());

  for (const Schedule schedule :
       {Schedule::kInterleaved1F1B, Schedule::kInterleavedGPipe, Schedule::kZeroBubbleV}) {
    add("two ranges a unit, " + NameOf(schedule), builder(schedule)
                                                      .AddUnit({{0, 2}, {3, 4}})
                                                      .AddUnit({{2, 3}, {4, 6}})
                                                      .AddRoute({0, 1, 0, 1}, 4, 2)
                                                      .plan());
  }

  const auto replicas = [&](bool shards_optimizer) {
    Plan two = builder().AddUnit({{0, 6}}).AddUnit({{0, 6}}).AddRoute({0}, 1, 2).AddRoute({1}, 6, 1).plan();
    two.shards_optimizer = shards_optimizer;
    return two;
  };
  add("two replicas, of micro-batches of 2 and 1", replicas(false));
  add("two replicas, optimizer sharded", replicas(true));
  plan = replicas(true);
  plan.units[0].optimizer_weight = 3;
  plan.units[1].activations = other;
  add("two replicas, optimizer sharded 3 : 1, one of another type", plan);
  plan.units[1].optimizer_weight = 0;
  add("two replicas, optimizer sharded 3 : 0, one of another type", plan);

  const auto shared = [&](int degree) {
    return builder().AddUnit({{0, 6}}, degree).AddRoute({0}, 4, 2).plan();
  };
  add("two share tensors", shared(2));
  plan = shared(2);
  plan.units[0].shares = UnevenShares(shape.model);
  add("two share tensors 1 : 3", plan);
  plan.units[0].recompute = Recompute::kAllButAttention;
  plan.shards_optimizer = true;
  add("two share tensors 1 : 3, recomputed, optimizer sharded", plan);
  add("four share tensors", shared(4));
  plan = builder().AddUnit({{0, 3}}, 2).AddUnit({{3, 6}}).AddRoute({0, 1}, 4, 2).plan();
  plan.units[0].shares = UnevenShares(shape.model);
  add("two share the first stage 1 : 3, one has the second", plan);
  add("two share each of two stages, zb-h1", builder(Schedule::kZeroBubbleH1)
                                                 .AddUnit({{0, 3}}, 2)
                                                 .AddUnit({{3, 6}}, 2)
                                                 .AddRoute({0, 1}, 8, 1)
                                                 .plan());
  plan = builder().AddUnit({{0, 6}}, 2).AddUnit({{0, 6}}).AddRoute({0}, 2, 2).AddRoute({1}, 4, 1).plan();
  plan.shards_optimizer = true;
  add("two share tensors beside a replica, optimizer sharded", plan);

  plan = builder()
             .AddUnit({{0, 3}})
             .AddUnit({{0, 3}})
             .AddUnit({{3, 6}})
             .AddRoute({0, 2}, 2, 2)
             .AddRoute({1, 2}, 4, 1)
             .plan();
  plan.units[1].activations = other;
  add("two first stages, one second stage", plan);

  plan = shared(2);
  plan.units[0].exchange_parts = 2;
  add("two share tensors, in two parts", plan);
  plan = shared(2);
  plan.units[0].sequence_parallel = true;
  add("two share tensors, and cut rows", plan);
  plan.units[0].shares = UnevenShares(shape.model);
  plan.units[0].recompute = Recompute::kLayers;
  add("two share tensors 1 : 3, and cut rows, layers recomputed", plan);
  plan = alone(2);
  plan.units[0].window_layers = 2;
  add("alone, layers on the host, two at a time", plan);
  plan.schedule = Schedule::kGPipe;
  plan.units[0].window_layers = 1;
  plan.units[0].recompute = Recompute::kLayers;
  add("alone, layers on the host, one at a time for all micro-batches, recomputed", plan);
  plan = pipeline(Schedule::kOneForwardOneBackward);
  for (Unit& unit : plan.units) unit.window_layers = 1;
  add("three stages, layers on the host, one at a time", plan);
  plan = alone(1);
  plan.schedule = Schedule::kGPipe;
  plan.units[0].activations_home = ActivationsHome::kHost;
  add("alone, gpipe, activations on the host", plan);
  plan.units[0].homed_layers = 3;
  plan.units[0].recompute = Recompute::kLayers;
  plan.units[0].recomputed_layers = 2;
  add("alone, gpipe, activations of its first three layers on the host, the last two recomputed", plan);
  plan = pipeline(Schedule::kGPipe);
  for (Unit& unit : plan.units) unit.activations_home = ActivationsHome::kHost;
  plan.units[0].window_layers = 1;
  plan.units[1].recompute = Recompute::kLayers;
  plan.units[2].activations = other;
  add("three stages, gpipe, activations on the host, layers of the first, too, the second recomputed", plan);
  plan = replicas(true);
  plan.units[0].optimizer_weight = 3;
  plan.units[1].window_layers = 2;
  add("two replicas, optimizer sharded 3 : 1, layers of one on the host", plan);
  for (const LayersHome home : {LayersHome::kGradientsOnPeers, LayersHome::kPeers}) {
    const std::string where =
        home == LayersHome::kPeers ? "layers on the peers" : "gradients of layers on the peers";
    plan = replicas(true);
    plan.schedule = Schedule::kGPipe;
    plan.units[0].optimizer_weight = 3;
    for (Unit& unit : plan.units) {
      unit.layers_home = home;
      unit.window_layers = 1;
    }
    plan.units[1].window_layers = 2;
    add("two replicas, optimizer sharded 3 : 1, " + where, plan);
    plan = builder().AddUnit({{0, 6}}, 2).AddUnit({{0, 6}}).AddRoute({0}, 2, 2).AddRoute({1}, 4, 1).plan();
    plan.schedule = Schedule::kGPipe;
    plan.shards_optimizer = true;
    for (Unit& unit : plan.units) {
      unit.layers_home = home;
      unit.window_layers = 1;
    }
    add("two share tensors beside a replica, " + where, plan);
  }
  return plans;
}

}  // namespace medley
