#include "coordinator/planner/classes/price_shapes.h"

#include <algorithm>
#include <limits>

namespace medley {

constexpr double kNever = std::numeric_limits<double>::infinity();

ShapePricing::ShapePricing(StageTable& table, int size, int most_stages)
    : table_(table),
      size_(size),
      most_stages_(most_stages),
      layers_(table.problem().shape.model.layers),
      kinds_(static_cast<int>(table.kinds().size())) {
  for (int kind = 0; kind < kinds_; ++kind) {
    for (int from_end = 1; from_end <= most_stages; ++from_end) {
      for (const bool first : {false, true}) {
        for (int layers = 0; layers <= layers_; ++layers) {
          StageForm form{.kind = kind, .size = size, .layers = layers, .first = first, .from_end = from_end};
          const std::optional<Recompute> recompute = layers == 0 ? std::nullopt : table.LeastRecompute(form);
          recompute_.push_back(static_cast<signed char>(recompute ? static_cast<int>(*recompute) : -1));
          form.recompute = recompute.value_or(Recompute::kNone);
          pass_seconds_.push_back(recompute ? table.PassSeconds(form) : kNever);
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
  const double limit = question.most_pass_seconds;
  const double worth_of_second = table_.problem().micro_batch_sizes[size_] / limit;
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
      for (int layers = 1; layers <= layers_; ++layers) {
        const double pass = PassSeconds(kind, from_end, layers, /*first=*/true);
        if (pass > limit) break;  // more layers take longer and need more
        const double cost = price[kind] + worth_of_second * pass + behind[layers];
        if (cost >= least) continue;
        least = cost;
        best_stages = from_end, best_kind = kind, best_layers = layers, best_next = behind_kind[layers];
      }
      double* const here = &here_[kind * starts];
      for (int layers = 1; layers <= layers_; ++layers) {
        const double pass = PassSeconds(kind, from_end, layers, /*first=*/false);
        if (pass > limit) break;
        const double cost = price[kind] + worth_of_second * pass;
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
        const double messages =
            worth_of_second * 2 * table_.MessageSeconds(kind, next, size_, /*same_host=*/false);
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
  Answer answer{.worth = worth_of_second * (question.seconds + limit) - least};
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

}  // namespace medley
