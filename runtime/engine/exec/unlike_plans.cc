#include "runtime/engine/exec/unlike_plans.h"

#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"
#include "runtime/engine/exec/gather_segments.h"

namespace medley {
namespace {

const std::vector<ModelShare> kOfTwo = {{{0, 1}, {0, 16}, {0, 6}}, {{1, 5}, {16, 17}, {6, 13}}};
const std::vector<ModelShare> kOfThree = {
    {{0, 3}, {0, 2}, {0, 1}}, {{3, 4}, {2, 12}, {1, 5}}, {{4, 5}, {12, 17}, {5, 13}}};

Route RouteOf(std::vector<UnitId> units, int sequences) {
  return {.units = std::move(units), .micro_batches = sequences, .micro_batch_sequences = 1};
}

// Units and routes of a plan, whose devices are numbered through.
Plan PlanOf(std::vector<Unit> units, std::vector<int> degrees, std::vector<Route> routes) {
  int device = 0;
  for (size_t u = 0; u < units.size(); ++u) {
    for (int d = 0; d < degrees[u]; ++d) units[u].devices.push_back(absl::StrCat("test/", device++));
  }
  return {.units = std::move(units), .routes = std::move(routes)};
}

Plan Sharded(Plan plan) {
  plan.shards_optimizer = true;
  return plan;
}

}  // namespace

std::vector<ModelConfig> ModelsToShare() {
  const ModelConfig gpt2 = {
      .layers = 3, .hidden = 10, .heads = 5, .feed_forward = 17, .vocabulary = 13, .context = 6};
  ModelConfig llama = gpt2;
  llama.family = ModelFamily::kLlama;
  llama.heads = 10;
  llama.key_value_heads = 5;
  llama.head_size = 4;
  llama.tied_head = false;
  ModelConfig tied = llama;
  tied.tied_head = true;
  return {gpt2, llama, tied};
}

std::vector<NamedPlan> UnlikePlans(const ModelConfig& model) {
  const int end = model.blocks();
  // Of a Llama, ranks that share a key-value head.
  const int many = model.key_value_head_count() < model.heads ? 6 : 5;
  return {
      {"one rank", PlanOf({{.chunks = {{0, end}}}}, {1}, {RouteOf({0}, 6)})},
      {"three unlike ranks", PlanOf({{.chunks = {{0, end}}, .shares = kOfThree}}, {3}, {RouteOf({0}, 6)})},
      {"stages of two, one and three ranks",
       PlanOf({{.chunks = {{0, 2}}, .shares = kOfTwo}, {.chunks = {{2, 3}}}, {.chunks = {{3, end}}}},
              {2, 1, 3}, {RouteOf({0, 1, 2}, 6)})},
      {"replicas of one, two and three ranks",
       PlanOf({{.chunks = {{0, end}}},
               {.chunks = {{0, end}}, .shares = kOfTwo},
               {.chunks = {{0, end}}, .shares = kOfThree}},
              {1, 2, 3}, {RouteOf({0}, 1), RouteOf({1}, 2), RouteOf({2}, 3)})},
      {"replicas of one, two and three ranks that shard the optimizer unevenly",
       Sharded(PlanOf({{.chunks = {{0, end}}, .optimizer_weight = 2},
                       {.chunks = {{0, end}}, .shares = kOfTwo, .optimizer_weight = 0},
                       {.chunks = {{0, end}}, .shares = kOfThree, .optimizer_weight = 1}},
                      {1, 2, 3}, {RouteOf({0}, 1), RouteOf({1}, 2), RouteOf({2}, 3)}))},
      {"replicas of two ranks each that shard the optimizer, beside stages",
       Sharded(PlanOf({{.chunks = {{0, end}}, .shares = kOfTwo, .optimizer_weight = 3},
                       {.chunks = {{0, 2}}, .shares = kOfTwo},
                       {.chunks = {{2, end}}, .shares = kOfTwo}},
                      {2, 2, 2}, {RouteOf({0}, 2), RouteOf({1, 2}, 4)}))},
      {"stages that shard the optimizer of what both ends hold",
       Sharded(PlanOf({{.chunks = {{0, 2}}, .shares = kOfTwo},
                       {.chunks = {{2, 3}}, .optimizer_weight = 0},
                       {.chunks = {{3, end}}}},
                      {2, 1, 3}, {RouteOf({0, 1, 2}, 6)}))},
      {"ranges of unlike units",
       PlanOf({{.chunks = {{0, 1}, {3, end}}, .shares = kOfTwo}, {.chunks = {{1, 3}}, .shares = kOfThree}},
              {2, 3}, {RouteOf({0, 1, 0}, 6)})},
      {"many ranks that shard the optimizer alone",
       Sharded(PlanOf({{.chunks = {{0, end}}, .optimizer_weight = 0}}, {many}, {RouteOf({0}, 6)}))},
      {"many ranks beside two", PlanOf({{.chunks = {{0, end}}}, {.chunks = {{0, end}}, .shares = kOfTwo}},
                                       {many, 2}, {RouteOf({0}, 2), RouteOf({1}, 4)})},
  };
}

float MadeUpValue(SegmentId segment, int64_t element, ParameterArena::Part part) {
  return static_cast<float>(segment + 1) * 4096 + static_cast<float>(element) +
         0.25f * static_cast<float>(static_cast<int>(part));
}

absl::Status FillWithMadeUp(const ModelConfig& model, ParameterArena& arena) {
  for (const SegmentId segment : arena.layout().segments) {
    int64_t first = 0;
    for (const ParameterSpec& tensor : SegmentParameters(model, segment)) {
      for (const ParameterArena::Part part : kSavedParts) {
        std::vector<float> values(tensor.elements);
        for (int64_t i = 0; i < tensor.elements; ++i) values[i] = MadeUpValue(segment, first + i, part);
        RETURN_IF_ERROR(arena.Write(part, tensor.name, values));
      }
      first += tensor.elements;
    }
  }
  return absl::OkStatus();
}

}  // namespace medley
