#include "coordinator/predictor/uniform_problem.h"

#include "absl/strings/str_cat.h"

namespace medley {

LinkCost Link(double latency_seconds, double rate, double all_reduce_rate) {
  return {LinkModel::Line(latency_seconds, rate), LinkModel::Line(latency_seconds, all_reduce_rate)};
}

PlanningProblem Uniform(int devices, int layers, int micro_batches) {
  PlanningProblem problem;
  problem.shape.model = {
      .layers = layers, .hidden = 4, .heads = 1, .feed_forward = 16, .vocabulary = 10, .context = 8};
  problem.shape.sequence = 8;
  problem.shape.global_batch_sequences = micro_batches;
  problem.micro_batch_sizes = {1};
  for (int d = 0; d < devices; ++d) {
    problem.devices.push_back({.name = absl::StrCat("d", d),
                               .kind = "k",
                               .processor = d,
                               .room = {.memory = GiB(1)},
                               .times = {{.embedding = {0, 0}, .layer = {1, 2, 1}, .head = {0, 0}}}});
  }
  problem.links = DeviceLinks(static_cast<int>(devices));
  return problem;
}

PlanningProblem Shared(PlanningProblem problem, const std::vector<std::pair<ModelShare, double>>& shares) {
  for (size_t d = 0; d < shares.size(); ++d) {
    const auto& [share, part] = shares[d];
    ShareCost& cost = problem.devices[d].shares.emplace_back();
    cost.share = AtOrigin(share);
    cost.room = problem.devices[d].room;
    cost.times = problem.devices[d].times;
    for (BlockTimes& times : cost.times) {
      for (PassTimes* pass : {&times.embedding, &times.layer, &times.head}) {
        pass->forward_seconds *= part;
        pass->backward_seconds *= part;
        pass->weight_gradient_seconds *= part;
      }
    }
  }
  return problem;
}

PlanningProblem WithHeads(PlanningProblem problem, int heads) {
  problem.shape.model.heads = heads;
  return problem;
}

Plan Pipeline(const std::vector<int>& ends, int micro_batches, Schedule schedule) {
  Plan plan{.schedule = schedule};
  plan.routes.push_back({.micro_batches = micro_batches, .micro_batch_sequences = 1});
  int first = 0;
  for (const int end : ends) {
    const int unit = static_cast<int>(plan.units.size());
    plan.units.push_back({{absl::StrCat("d", unit)}, {{first, end}}});
    plan.routes[0].units.push_back(unit);
    first = end;
  }
  return plan;
}

Plan Replicas(int blocks, const std::vector<int>& micro_batches) {
  Plan plan;
  for (const int count : micro_batches) {
    const int unit = static_cast<int>(plan.units.size());
    plan.units.push_back({{absl::StrCat("d", unit)}, {{0, blocks}}});
    plan.routes.push_back({{unit}, count, 1});
  }
  return plan;
}

}  // namespace medley
