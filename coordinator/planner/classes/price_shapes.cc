#include "coordinator/planner/classes/price_shapes.h"

#include <algorithm>
#include <limits>

namespace medley {

constexpr double kNever = std::numeric_limits<double>::infinity();

ShapePricing::ShapePricing(StageTable& table, int size, int most_stages)
    : table_(table), size_(size), most_stages_(most_stages), layers_(table.problem().shape.model.layers) {
  const int kinds = static_cast<int>(table.kinds().size());
  for (int kind = 0; kind < kinds; ++kind) {
    for (int from_end = 1; from_end <= most_stages; ++from_end) {
      for (const bool first : {false, true}) {
        for (int layers = 0; layers <= layers_; ++layers) {
          StageForm form{.kind = kind, .size = size, .layers = layers, .first = first, .from_end = from_end};
          const std::optional<Recompute> recompute = layers == 0 ? std::nullopt : table.LeastRecompute(form);
          recompute_.push_back(static_cast<signed char>(recompute ? static_cast<int>(*recompute) : -1));
          form.recompute = recompute.value_or(Recompute::kNone);
          pass_seconds_.push_back(table.PassSeconds(form));
        }
      }
    }
  }
}

StageForm ShapePricing::Form(int kind, int from_end, int layers, bool first) const {
  return {.kind = kind,
          .size = size_,
          .layers = layers,
          .first = first,
          .from_end = from_end,
          .recompute = static_cast<Recompute>(RecomputeOf(kind, from_end, layers, first))};
}

std::vector<double> ShapePricing::PassTimes(double ratio) const {
  std::vector<double> times;
  for (size_t i = 0; i < pass_seconds_.size(); ++i) {
    if (recompute_[i] >= 0) times.push_back(pass_seconds_[i]);
  }
  std::sort(times.begin(), times.end());
  std::vector<double> apart;
  for (const double time : times) {
    if (apart.empty() || time >= ratio * apart.back()) apart.push_back(time);
  }
  // The longest of each group, so that a limit has room for all of it.
  for (double& time : apart) {
    const auto next = std::lower_bound(times.begin(), times.end(), ratio * time);
    time = *(next - 1);
  }
  return apart;
}

std::optional<ShapePricing::Answer> ShapePricing::Best(const Question& question) const {
  const double limit = question.most_pass_seconds;
  const double sequences = table_.problem().micro_batch_sizes[size_];
  const double worth_of_second = sequences / limit;
  const int kinds = static_cast<int>(table_.kinds().size());
  std::vector<double> price(kinds);
  for (int k = 0; k < kinds; ++k) {
    const StageKind& kind = table_.kinds()[k];
    price[k] = kind.degree <= question.most_devices[kind.device_class]
                   ? kind.degree * question.price[kind.device_class]
                   : kNever;
  }
  const auto cost_of = [&](int kind, int from_end, int layers, bool first) {
    const size_t at = ((kind * most_stages_ + from_end - 1) * 2 + (first ? 1 : 0)) * (layers_ + 1) + layers;
    if (recompute_[at] < 0 || pass_seconds_[at] > limit) return kNever;
    return price[kind] + worth_of_second * pass_seconds_[at];
  };
  // choices[from_end - 1][kind][first layer of the stage]: the cheapest rest that begins so.
  std::vector<std::vector<std::vector<Choice>>> choices;
  // Of the rest that begins at a layer, behind a stage of each kind.
  std::vector<std::vector<Choice>> behind(kinds, std::vector<Choice>(layers_ + 1, {kNever, 0, -1}));
  for (int kind = 0; kind < kinds; ++kind) behind[kind][layers_].cost = 0;
  double least = kNever;
  int best_stages = 0, best_kind = 0, best_layers = 0, best_next = 0;
  for (int from_end = 1; from_end <= most_stages_; ++from_end) {
    std::vector<std::vector<Choice>>& here =
        choices.emplace_back(kinds, std::vector<Choice>(layers_ + 1, {kNever, 0, -1}));
    bool any = false;
    for (int kind = 0; kind < kinds; ++kind) {
      if (price[kind] == kNever) continue;
      for (int layers = 1; layers <= layers_; ++layers) {
        const double cost = cost_of(kind, from_end, layers, /*first=*/false);
        // More layers take longer and need more.
        if (cost == kNever) break;
        for (int end = layers; end <= layers_; ++end) {
          const Choice& rest = behind[kind][end];
          Choice& choice = here[kind][end - layers];
          if (rest.cost == kNever || cost + rest.cost >= choice.cost) continue;
          choice = {cost + rest.cost, layers, rest.next_kind};
          any = true;
        }
      }
      for (int layers = 1; layers <= layers_; ++layers) {
        const Choice& rest = behind[kind][layers];
        if (rest.cost == kNever) continue;
        const double cost = cost_of(kind, from_end, layers, /*first=*/true) + rest.cost;
        if (cost >= least) continue;
        least = cost;
        best_stages = from_end, best_kind = kind, best_layers = layers, best_next = rest.next_kind;
      }
    }
    if (!any) break;
    for (int kind = 0; kind < kinds; ++kind) {
      for (int first = 0; first <= layers_; ++first) {
        Choice& best = behind[kind][first];
        best = {kNever, 0, -1};
        for (int next = 0; next < kinds; ++next) {
          if (here[next][first].cost == kNever) continue;
          const double cost =
              here[next][first].cost +
              worth_of_second * 2 * table_.MessageSeconds(kind, next, size_, /*same_host=*/false);
          if (cost < best.cost) best = {cost, 0, next};
        }
      }
    }
  }
  if (least == kNever) return std::nullopt;
  Answer answer{.worth = worth_of_second * (question.seconds + limit) - least};
  answer.shape.size = size_;
  answer.shape.stages.push_back(Form(best_kind, best_stages, best_layers, /*first=*/true));
  int layer = best_layers, next = best_next;
  for (int from_end = best_stages - 1; from_end >= 1; --from_end) {
    const Choice& choice = choices[from_end - 1][next][layer];
    answer.shape.stages.push_back(Form(next, from_end, choice.layers, /*first=*/false));
    layer += choice.layers;
    next = choice.next_kind;
  }
  return answer;
}

}  // namespace medley
