#include "coordinator/planner/classes/price_shapes.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "runtime/base/vectorised.h"

namespace medley {

constexpr double kNever = std::numeric_limits<double>::infinity();
// What rounding may add up to.
constexpr double kExact = 1 - 1e-12;

// The first stage has the embedding, and the last one the head.
int LeastLayers(int from_end, bool first) { return first || from_end == 1 ? 0 : 1; }

ShapePricing::ShapePricing(StageTable& table, int size, int most_stages)
    : table_(table),
      size_(size),
      most_stages_(most_stages),
      layers_(table.problem().shape.model.layers),
      kinds_(static_cast<int>(table.kinds().size())),
      prices_(kinds_),
      stage_cost_(layers_ + 1),
      any_(layers_ + 1) {
  std::iota(any_.begin(), any_.end(), 0);
  for (int kind = 0; kind < kinds_; ++kind) {
    for (int next = 0; next < kinds_; ++next)
      message_seconds_.push_back(2 * table.LeastMessageSeconds(kind, next, size_));
  }
  for (int kind = 0; kind < kinds_; ++kind) {
    for (int from_end = 1; from_end <= most_stages; ++from_end) {
      for (const bool first : {false, true}) {
        StageForm form{.kind = kind, .size = size, .first = first, .from_end = from_end};
        const std::vector<std::pair<UnitSaving, int>> ways = table.Ways(form);
        for (form.layers = 0; form.layers <= layers_; ++form.layers) {
          const auto least = std::find_if(ways.begin(), ways.end(),
                                          [&](const auto& one) { return form.layers <= one.second; });
          std::optional<UnitSaving> saving;
          if (least != ways.end()) saving = least->first;
          // A bound takes as few layers as fit, but that nothing is faster than the fastest where it recomputes nothing. Of plans these
          // are told when a shape is found, for in other orders what recomputes at all has no gradients to put off.
          const bool recomputes_none = saving && saving->recompute == Recompute::kNone;
          const bool may_take_less =
              table.is_of_bounds() && saving && !(recomputes_none && least == ways.begin());
          const bool may_live_on_host = table.layers_on_hosts() && !recomputes_none;
          if (may_take_less || may_live_on_host) saving = table.LeastSaving(form);
          const bool fits = saving && form.layers >= LeastLayers(from_end, first);
          savings_.push_back(fits ? saving : std::nullopt);
          // Further from the end a stage that does the same takes as long.
          if (from_end > 2) {
            const size_t nearer = At(kind, from_end - 1, form.layers, first);
            const bool both_store = from_end > kFewestFromEndToStore ||
                                    (fits && saving->activations_home == ActivationsHome::kDevice);
            if (savings_[nearer] == savings_.back() && both_store) {
              pass_seconds_.push_back(pass_seconds_[nearer]);
              forward_seconds_.push_back(forward_seconds_[nearer]);
              way_seconds_.push_back(way_seconds_[nearer]);
              continue;
            }
          }
          form.saving = savings_.back().value_or(UnitSaving{});
          pass_seconds_.push_back(fits ? table.PassSeconds(form) : kNever);
          if (fits) pass_times_.push_back(pass_seconds_.back());
          forward_seconds_.push_back(table.ForwardSeconds(form));
          way_seconds_.push_back(fits ? table.WaySeconds(form) : kNever);
        }
      }
    }
  }
  std::sort(pass_times_.begin(), pass_times_.end());
  pass_times_.erase(std::unique(pass_times_.begin(), pass_times_.end()), pass_times_.end());
}

StageForm ShapePricing::Form(int kind, int from_end, int layers, bool first) const {
  return {.kind = kind,
          .size = size_,
          .layers = layers,
          .first = first,
          .from_end = from_end,
          .saving = savings_[At(kind, from_end, layers, first)].value_or(UnitSaving{})};
}

std::vector<double> ShapePricing::PassTimes(double ratio) const {
  std::vector<double> apart;
  for (auto first = pass_times_.begin(); first != pass_times_.end();) {
    // A limit has room for all of a group.
    const auto next = std::upper_bound(first, pass_times_.end(), ratio * *first);
    apart.push_back(*(next - 1));
    first = next;
  }
  return apart;
}

namespace {

// Sums and minima are the same, however many at a time.

// least[i] = min(least[i], added + values[i]).
MEDLEY_VECTORISED void LowerTo(double* least, double added, const double* values, int count) {
  for (int i = 0; i < count; ++i) {
    const double value = added + values[i];
    least[i] = value < least[i] ? value : least[i];
  }
}

// What stages of 0 to `count` - 1 layers cost (ShapePricing::StageCost), whose times are at the same places.
struct StageCosts {
  const double *pass_seconds, *forward_seconds, *way_seconds;
  double most_pass_seconds, most_period_seconds, ahead, price, price_of_second;
};
MEDLEY_VECTORISED void Tabulate(const StageCosts& of, double* costs, int count) {
  const double *const pass = of.pass_seconds, *const forward = of.forward_seconds,
                      *const way = of.way_seconds;
  for (int i = 0; i < count; ++i) {
    const double cost = of.price + of.price_of_second * way[i], period = pass[i] - of.ahead * forward[i];
    const double in_time = pass[i] > of.most_pass_seconds ? kNever : cost;
    costs[i] = period > of.most_period_seconds ? kNever : in_time;
  }
}

}  // namespace

double ShapePricing::StageCost(const Question& question, int kind, int from_end, int layers,
                               bool first) const {
  const double pass = PassSeconds(kind, from_end, layers, first);
  if (pass > question.most_pass_seconds) return kNever;
  // What runs ahead counts off in part, or all of it for however long a period.
  const double ahead = question.ahead_part == 0 ? 0 : AheadSeconds(kind, from_end, layers, first);
  if (question.ahead_part != 0 &&
      pass - (ahead > 0 ? question.ahead_part * ahead : 0) > question.most_period_seconds)
    return kNever;
  return prices_[kind] + question.price_of_second * StageSeconds(question, kind, from_end, layers, first);
}

double ShapePricing::StageSeconds(const Question& question, int kind, int from_end, int layers,
                                  bool first) const {
  const size_t at = At(kind, from_end, layers, first);
  double seconds = question.ways * way_seconds_[at];
  if (!first) return seconds;
  seconds += question.first_passes * pass_seconds_[at];
  if (question.sum_seconds.empty()) return seconds;
  const double sums = question.sum_seconds[SumsAt(kind, from_end, layers, first)],
               forward = forward_seconds_[at];
  seconds += std::max(0.0, sums - (pass_seconds_[at] - forward));
  seconds += std::max(0.0, question.gathered_over_summed * sums - forward);
  return seconds;
}

std::vector<double> ShapePricing::SumSeconds(
    const std::function<double(const StageForm&)>& seconds_of) const {
  std::vector<double> seconds;
  for (int kind = 0; kind < kinds_; ++kind) {
    for (const int from_end : {2, 1}) {
      for (const bool first : {false, true}) {
        for (int layers = 0; layers <= layers_; ++layers) {
          seconds.push_back(seconds_of(
              {.kind = kind, .size = size_, .layers = layers, .first = first, .from_end = from_end}));
        }
      }
    }
  }
  return seconds;
}

// Of any stage but the last, which has as little under way as any of them; with the last one's head it costs more.
double ShapePricing::LeastLayerCost(const Question& question) const {
  double least = kNever;
  for (int kind = 0; kind < kinds_; ++kind) {
    for (int layers = 1; layers <= layers_ && MayHave(question, kind, layers); ++layers) {
      const double seconds = question.ways * LeastWaySeconds(kind, layers);
      least = std::min(least, (prices_[kind] + question.price_of_second * seconds) / layers);
    }
  }
  return least < kNever ? least * kExact : 0;
}

void ShapePricing::FindPrices(const Question& question) {
  for (int k = 0; k < kinds_; ++k) {
    const StageKind& kind = table_.kinds()[k];
    prices_[k] = kind.degree <= question.most_devices[kind.device_class]
                     ? kind.degree * question.price[kind.device_class]
                     : kNever;
  }
}

// Those that no other is both cheaper and shorter than, the cheapest first.
void ShapePricing::KeepBest(std::vector<PricedWay>& ways) {
  std::sort(ways.begin(), ways.end(), [](const PricedWay& a, const PricedWay& b) {
    return a.price != b.price ? a.price < b.price : a.seconds < b.seconds;
  });
  size_t kept = 0;
  for (const PricedWay& way : ways) {
    if (kept == 0 || way.seconds < ways[kept - 1].seconds) ways[kept++] = way;
  }
  ways.resize(kept);
}

double ShapePricing::LeastSeconds(const Question& question, double most_price, double most_seconds) {
  FindPrices(question);
  const int most_stages = std::min(most_stages_, question.most_stages), starts = layers_ + 1;
  // What the layers before a rest cost and take at least.
  double layer_price = kNever, layer_seconds = kNever;
  for (int kind = 0; kind < kinds_; ++kind) {
    for (int layers = 1; layers <= layers_ && MayHave(question, kind, layers); ++layers) {
      layer_price = std::min(layer_price, prices_[kind] / layers * kExact);
      layer_seconds =
          std::min(layer_seconds, question.ways * LeastWaySeconds(kind, layers) / layers * kExact);
    }
  }
  if (layer_price == kNever) layer_price = layer_seconds = 0;
  ways_here_.resize(kinds_ * starts);
  ways_behind_.resize(kinds_ * starts);
  for (std::vector<PricedWay>& ways : ways_behind_) ways.clear();
  for (int kind = 0; kind < kinds_; ++kind) ways_behind_[kind * starts + layers_] = {{0, 0}};
  double least = most_seconds;
  for (int from_end = 1; from_end <= most_stages; ++from_end) {
    // So that a stage is of the question: its passes and its period.
    const auto stage_of = [&](int kind, int layers, bool first) {
      return StageCost(question, kind, from_end, layers, first) < kNever
                 ? StageSeconds(question, kind, from_end, layers, first)
                 : kNever;
    };
    for (int kind = 0; kind < kinds_; ++kind) {
      for (int layers = LeastLayers(from_end, true); layers <= layers_; ++layers) {
        if (from_end < question.least_stages || prices_[kind] > most_price) break;
        const std::vector<PricedWay>& behind = ways_behind_[kind * starts + layers];
        if (behind.empty()) continue;
        const double seconds = stage_of(kind, layers, /*first=*/true);
        for (const PricedWay& way : behind) {
          if (prices_[kind] + way.price <= most_price) least = std::min(least, seconds + way.seconds);
        }
      }
    }
    if (from_end == most_stages) break;
    for (int kind = 0; kind < kinds_; ++kind) {
      for (int start = 0; start < starts; ++start) ways_here_[kind * starts + start].clear();
      if (prices_[kind] > most_price) continue;
      for (int layers = LeastLayers(from_end, false); layers <= layers_; ++layers) {
        if (PassSeconds(kind, from_end, layers, /*first=*/false) > question.most_pass_seconds) break;
        const double seconds = stage_of(kind, layers, /*first=*/false);
        if (seconds == kNever) continue;
        for (int start = 0; start + layers <= layers_; ++start) {
          for (const PricedWay& way : ways_behind_[kind * starts + start + layers]) {
            const PricedWay longer = {prices_[kind] + way.price, seconds + way.seconds};
            if (longer.price + start * layer_price <= most_price &&
                longer.seconds + start * layer_seconds < least)
              ways_here_[kind * starts + start].push_back(longer);
          }
        }
      }
      for (int start = 0; start < starts; ++start) KeepBest(ways_here_[kind * starts + start]);
    }
    for (int kind = 0; kind < kinds_; ++kind) {
      for (int start = 0; start < starts; ++start) {
        std::vector<PricedWay>& behind = ways_behind_[kind * starts + start];
        behind.clear();
        if (prices_[kind] > most_price) continue;
        for (int next = 0; next < kinds_; ++next) {
          const std::vector<PricedWay>& here = ways_here_[next * starts + start];
          if (here.empty()) continue;
          const double message = MessageSeconds(question, kind, next);
          for (const PricedWay& way : here) behind.push_back({way.price, way.seconds + message});
        }
        KeepBest(behind);
      }
    }
  }
  return least < most_seconds ? least : kNever;
}

std::optional<ShapePricing::Answer> ShapePricing::Best(const Question& question) {
  const absl::Span<const int> cuts =
      question.cuts.empty() ? absl::MakeConstSpan(any_) : absl::MakeConstSpan(question.cuts);
  FindPrices(question);
  const int starts = layers_ + 1;
  const size_t level = static_cast<size_t>(kinds_) * starts;
  here_.resize((most_stages_ + 1) * level);
  behind_.resize((most_stages_ + 1) * level);
  std::fill_n(behind_.begin(), level, kNever);
  for (int kind = 0; kind < kinds_; ++kind) behind_[kind * starts + layers_] = 0;
  double least = question.most_cost;
  const double layer_cost = LeastLayerCost(question);
  int best_stages = 0, best_kind = 0, best_layers = 0;
  const int most_stages = std::min(most_stages_, question.most_stages);
  int first_start = layers_, end_start = starts;  // where rests begin that there are
  for (int from_end = 1; from_end <= most_stages; ++from_end) {
    double* const all_here = &here_[from_end * level];
    std::fill_n(all_here, level, kNever);
    for (int kind = 0; kind < kinds_; ++kind) {
      if (prices_[kind] >= least) continue;
      const double* const behind = &behind_[(from_end - 1) * level + kind * starts];
      for (auto cut = std::lower_bound(cuts.begin(), cuts.end(), first_start); cut != cuts.end(); ++cut) {
        const int layers = *cut;
        if (from_end < question.least_stages || layers >= end_start || LeastBegin(question, kind) > 0) break;
        if (PassSeconds(kind, from_end, layers, /*first=*/true) > question.most_pass_seconds) break;
        if (behind[layers] == kNever || layers < LeastLayers(from_end, true)) continue;
        const double cost = StageCost(question, kind, from_end, layers, /*first=*/true) + behind[layers];
        if (cost >= least) continue;
        least = cost;
        best_stages = from_end, best_kind = kind, best_layers = layers;
      }
      double* const here = all_here + static_cast<ptrdiff_t>(kind) * starts;
      int most_layers = LeastLayers(from_end, false) - 1;
      const size_t row = At(kind, from_end, 0, /*first=*/false);
      const int behind_layers = std::min(layers_, end_start - 1);
      while (most_layers < behind_layers &&
             pass_seconds_[row + most_layers + 1] <= question.most_pass_seconds)
        ++most_layers;
      // Of an endless part what runs ahead counts off whole, and of the last stage, which runs nothing ahead, none does.
      const bool has_period = question.ahead_part != 0;
      Tabulate({&pass_seconds_[row], &forward_seconds_[row], &way_seconds_[row], question.most_pass_seconds,
                has_period ? question.most_period_seconds : kNever,
                has_period && from_end > 1 ? question.ahead_part * (from_end - 1) : 0, prices_[kind],
                question.price_of_second * question.ways},
               stage_cost_.data(), most_layers + 1);
      if (question.cuts.empty()) {
        for (int layers = LeastLayers(from_end, false); layers <= most_layers; ++layers) {
          const int from = std::max(first_start - layers, 0);
          if (stage_cost_[layers] < least && from < end_start - layers)
            LowerTo(here + from, stage_cost_[layers], behind + from + layers, end_start - layers - from);
        }
        continue;
      }
      for (size_t begin = 0; begin < cuts.size(); ++begin) {
        for (size_t end = begin + LeastLayers(from_end, false); end < cuts.size(); ++end) {
          const int layers = cuts[end] - cuts[begin];
          if (layers > most_layers) break;
          here[cuts[begin]] = std::min(here[cuts[begin]], stage_cost_[layers] + behind[cuts[end]]);
        }
      }
    }
    // What costs as much as a whole route already, with the least that the layers before it cost, is the rest of none
    // that is better.
    const int starts_before = end_start;
    first_start = starts, end_start = 0;
    std::vector<int>& some = some_;
    some.clear();
    for (int kind = 0; kind < kinds_; ++kind) {
      double* const here = all_here + static_cast<ptrdiff_t>(kind) * starts;
      std::fill_n(here, LeastBegin(question, kind), kNever);
      bool any = false;
      for (int start = 0; start < starts_before; ++start) {
        if (here[start] == kNever) continue;
        if (here[start] + start * layer_cost >= least) {
          here[start] = kNever;
          continue;
        }
        any = true;
        first_start = std::min(first_start, start);
        end_start = std::max(end_start, start + 1);
      }
      if (any) some.push_back(kind);
    }
    if (some.empty()) break;
    double* const all_behind = &behind_[from_end * level];
    std::fill_n(all_behind, level, kNever);
    for (int kind = 0; kind < kinds_; ++kind) {
      if (prices_[kind] >= least) continue;
      for (const int next : some) {
        LowerTo(all_behind + static_cast<ptrdiff_t>(kind) * starts + first_start,
                MessageCost(question, kind, next),
                all_here + static_cast<ptrdiff_t>(next) * starts + first_start, end_start - first_start);
      }
    }
  }
  if (best_stages == 0) return std::nullopt;
  Answer answer{.cost = least};
  answer.shape.size = size_;
  answer.shape.stages.push_back(Form(best_kind, best_stages, best_layers, /*first=*/true));
  // The rest again, of which only what it costs was kept.
  int layer = best_layers, kind = best_kind;
  for (int from_end = best_stages - 1; from_end >= 1; --from_end) {
    int best_next = 0, next_layers = 0;
    double cheapest = kNever;
    for (int next = 0; next < kinds_; ++next) {
      const double cost = MessageCost(question, kind, next) + here_[from_end * level + next * starts + layer];
      if (cost < cheapest) cheapest = cost, best_next = next;
    }
    cheapest = kNever;
    const double* const behind = &behind_[(from_end - 1) * level + best_next * starts];
    for (const int end : cuts) {
      if (end < layer + LeastLayers(from_end, false)) continue;
      const double cost =
          StageCost(question, best_next, from_end, end - layer, /*first=*/false) + behind[end];
      if (cost < cheapest) cheapest = cost, next_layers = end - layer;
    }
    answer.shape.stages.push_back(Form(best_next, from_end, next_layers, /*first=*/false));
    layer += next_layers;
    kind = best_next;
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
