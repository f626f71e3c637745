#include "coordinator/planner/classes/price_shapes.h"

#include <algorithm>
#include <limits>

namespace medley {

constexpr double kNever = std::numeric_limits<double>::infinity();

// The first stage has the embedding, and the last one the head.
int LeastLayers(int from_end, bool first) { return first || from_end == 1 ? 0 : 1; }

ShapePricing::ShapePricing(StageTable& table, int size, int most_stages)
    : table_(table),
      size_(size),
      most_stages_(most_stages),
      layers_(table.problem().shape.model.layers),
      kinds_(static_cast<int>(table.kinds().size())) {
  for (int kind = 0; kind < kinds_; ++kind) {
    for (int from_end = 1; from_end <= most_stages; ++from_end) {
      for (const bool first : {false, true}) {
        const std::vector<std::pair<Recompute, int>> recomputes =
            table.Recomputes(kind, size, first, from_end);
        StageForm form{.kind = kind, .size = size, .first = first, .from_end = from_end};
        for (form.layers = 0; form.layers <= layers_; ++form.layers) {
          const auto least = std::find_if(recomputes.begin(), recomputes.end(),
                                          [&](const auto& one) { return form.layers <= one.second; });
          const bool fits = least != recomputes.end() && form.layers >= LeastLayers(from_end, first);
          recompute_.push_back(static_cast<signed char>(fits ? static_cast<int>(least->first) : -1));
          form.recompute = fits ? least->first : Recompute::kNone;
          pass_seconds_.push_back(fits ? table.PassSeconds(form) : kNever);
          forward_seconds_.push_back(table.ForwardSeconds(form));
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
          .recompute = static_cast<Recompute>(recompute_[At(kind, from_end, layers, first)])};
}

std::vector<double> ShapePricing::PassTimes(double ratio) const {
  std::vector<double> times;
  std::copy_if(pass_seconds_.begin(), pass_seconds_.end(), std::back_inserter(times),
               [](double seconds) { return seconds < kNever; });
  std::sort(times.begin(), times.end());
  std::vector<double> apart;
  for (size_t i = 0; i < times.size();) {
    // A limit has room for all of a group.
    const auto next = std::upper_bound(times.begin() + i, times.end(), ratio * times[i]);
    apart.push_back(*(next - 1));
    i = next - times.begin();
  }
  return apart;
}

std::optional<ShapePricing::Answer> ShapePricing::Best(const Question& question) {
  // What runs ahead counts off in part, or all of it for however long a period.
  const auto is_short = [&](int kind, int from_end, int layers, bool first, double pass) {
    if (question.ahead_part == 0) return true;
    const double ahead = AheadSeconds(kind, from_end, layers, first);
    return pass - (ahead > 0 ? question.ahead_part * ahead : 0) <= question.most_period_seconds;
  };
  std::vector<double> price(kinds_);
  for (int k = 0; k < kinds_; ++k) {
    const StageKind& kind = table_.kinds()[k];
    price[k] = kind.degree <= question.most_devices[kind.device_class]
                   ? kind.degree * question.price[kind.device_class]
                   : kNever;
  }
  const int starts = layers_ + 1;
  behind_.assign(static_cast<size_t>(kinds_) * starts, kNever);
  behind_kind_.assign(behind_.size(), -1);
  for (int kind = 0; kind < kinds_; ++kind) behind_[kind * starts + layers_] = 0;
  choices_.resize(static_cast<size_t>(most_stages_) * kinds_ * starts);
  double least = kNever;
  int best_stages = 0, best_kind = 0, best_layers = 0, best_next = 0;
  for (int from_end = 1; from_end <= most_stages_; ++from_end) {
    here_.assign(static_cast<size_t>(kinds_) * starts, kNever);
    Choice* const choices = &choices_[static_cast<size_t>(from_end - 1) * kinds_ * starts];
    for (int kind = 0; kind < kinds_; ++kind) {
      if (price[kind] == kNever) continue;
      const double* const behind = &behind_[kind * starts];
      const short* const behind_kind = &behind_kind_[kind * starts];
      for (int layers = LeastLayers(from_end, true); layers <= layers_; ++layers) {
        const double pass = PassSeconds(kind, from_end, layers, /*first=*/true);
        if (pass > question.most_pass_seconds) break;  // more layers take longer and need more
        const double cost = price[kind] + question.price_of_second * pass + behind[layers];
        if (cost >= least || !is_short(kind, from_end, layers, true, pass)) continue;
        least = cost;
        best_stages = from_end, best_kind = kind, best_layers = layers, best_next = behind_kind[layers];
      }
      double* const here = &here_[kind * starts];
      for (int layers = LeastLayers(from_end, false); layers <= layers_; ++layers) {
        const double pass = PassSeconds(kind, from_end, layers, /*first=*/false);
        if (pass > question.most_pass_seconds) break;
        if (!is_short(kind, from_end, layers, false, pass)) continue;
        const double cost = price[kind] + question.price_of_second * pass;
        for (int end = layers; end <= layers_; ++end) {
          if (cost + behind[end] >= here[end - layers]) continue;
          here[end - layers] = cost + behind[end];
          choices[kind * starts + end - layers] = {static_cast<short>(layers), behind_kind[end]};
        }
      }
    }
    // What costs as much as a whole route already is the rest of none that is better.
    bool any = false;
    for (double& cost : here_) {
      if (cost >= least) cost = kNever;
      any = any || cost < kNever;
    }
    if (!any) break;
    behind_.assign(behind_.size(), kNever);
    for (int kind = 0; kind < kinds_; ++kind) {
      if (price[kind] == kNever) continue;
      for (int next = 0; next < kinds_; ++next) {
        const double messages = question.price_of_second * 2 * table_.LeastMessageSeconds(kind, next, size_);
        const double* const here = &here_[next * starts];
        for (int first = 0; first <= layers_; ++first) {
          if (here[first] + messages >= behind_[kind * starts + first]) continue;
          behind_[kind * starts + first] = here[first] + messages;
          behind_kind_[kind * starts + first] = static_cast<short>(next);
        }
      }
    }
  }
  if (least == kNever) return std::nullopt;
  Answer answer{.cost = least};
  answer.shape.size = size_;
  answer.shape.stages.push_back(Form(best_kind, best_stages, best_layers, /*first=*/true));
  int layer = best_layers, next = best_next;
  for (int from_end = best_stages - 1; from_end >= 1; --from_end) {
    const Choice& choice = choices_[(static_cast<size_t>(from_end - 1) * kinds_ + next) * starts + layer];
    answer.shape.stages.push_back(Form(next, from_end, choice.layers, /*first=*/false));
    layer += choice.layers;
    next = choice.next_kind;
  }
  return answer;
}

std::vector<ShapePricing> PricingsOf(StageTable& table, int most_stages) {
  std::vector<ShapePricing> pricings;
  const PlanningProblem& problem = table.problem();
  for (int size = 0; size < static_cast<int>(problem.micro_batch_sizes.size()); ++size) {
    if (DividesBatch(problem, problem.micro_batch_sizes[size]))
      pricings.emplace_back(table, size, most_stages);
  }
  return pricings;
}

}  // namespace medley
