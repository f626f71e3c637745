#include "runtime/ir/plan/alike_ranks.h"

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/ir/plan/order_text.h"
#include "runtime/ir/plan/part_of_plan.h"

namespace medley {
namespace {

void AppendForm(const Unit& unit, std::string& form) {
  for (const BlockRange& chunk : unit.chunks)
    absl::StrAppend(&form, "|", chunk.first.value(), "-", chunk.end.value());
  absl::StrAppend(&form, "d", unit.devices.size(), "r", static_cast<int>(unit.recompute), ",",
                  unit.recomputed_layers, "w", unit.window_layers, "h", static_cast<int>(unit.layers_home),
                  "k", static_cast<int>(unit.activations_home), ",", unit.homed_layers, "a",
                  static_cast<int>(unit.activations), "s", unit.sequence_parallel ? 1 : 0, "p",
                  unit.exchange_parts, "o", unit.optimizer_weight, "f", unit.forwards_ahead);
  for (const ModelShare& share : unit.shares) {
    absl::StrAppend(&form, ";", share.key_value_heads.end, ".", share.query_heads.end, ".",
                    share.feed_forward.end, ".", share.vocabulary.end);
  }
  for (const Pace& pace : unit.paces) {
    absl::StrAppend(&form, "t", pace.forward_nanoseconds, ",", pace.input_gradient_nanoseconds, ",",
                    pace.weight_gradient_nanoseconds, ",", pace.split_nanoseconds, ",",
                    pace.message_nanoseconds);
  }
  if (!unit.order.empty()) absl::StrAppend(&form, "o", FormatOrder(unit.order));
}

// Whether units come first of those that hold some block, and so answer for its norms where nothing is sharded.
std::vector<bool> FirstHolders(const Plan& plan) {
  std::vector<bool> first(plan.units.size(), false), held;
  for (size_t u = 0; u < plan.units.size(); ++u) {
    for (const BlockRange& chunk : plan.units[u].chunks) {
      if (held.size() < static_cast<size_t>(chunk.end)) held.resize(chunk.end, false);
      for (BlockId block = chunk.first; block < chunk.end; ++block) {
        if (held[block]) continue;
        held[block] = true;
        first[u] = true;
      }
    }
  }
  return first;
}

}  // namespace

std::string FormOf(const Plan& plan, const std::vector<int>& routes) {
  std::string form = absl::StrCat(static_cast<int>(plan.schedule));
  std::map<int, int> numbers;  // of units
  for (const int r : routes) {
    const Route& of = plan.routes[r];
    absl::StrAppend(&form, ";", of.micro_batch_sequences);
    if (routes.size() > 1) absl::StrAppend(&form, "m", of.micro_batches);
    for (const UnitId u : of.units) {
      const auto [number, is_new] = numbers.try_emplace(u.value(), static_cast<int>(numbers.size()));
      absl::StrAppend(&form, "u", number->second);
      if (is_new) AppendForm(plan.units[u], form);
    }
  }
  return form;
}

std::vector<Rank> StandInsOf(const Plan& plan,
                             absl::FunctionRef<std::string(const std::vector<int>& routes)> also) {
  const std::vector<bool> first_holders = FirstHolders(plan);
  std::vector<Rank> first_ranks;
  Rank next = 0;
  for (const Unit& unit : plan.units) {
    first_ranks.push_back(next);
    next = next + static_cast<int>(unit.devices.size());
  }
  std::vector<Rank> stand_ins(next.value());
  std::map<std::string, std::vector<UnitId>> first_sets;
  for (const std::vector<int>& routes : RoutesThatMeet(plan)) {
    const std::vector<UnitId> units = UnitsOf(plan, routes);
    std::string key = absl::StrCat(FormOf(plan, routes), "#", plan.routes[routes.front()].micro_batches, "#",
                                   also(routes), "#");
    for (const UnitId u : units) key.push_back(first_holders[u] ? '1' : '0');
    const std::vector<UnitId>& first_set = first_sets.try_emplace(std::move(key), units).first->second;
    for (size_t u = 0; u < units.size(); ++u) {
      for (int member = 0; member < static_cast<int>(plan.units[units[u]].devices.size()); ++member)
        stand_ins[first_ranks[units[u]] + member] = first_ranks[first_set[u]] + member;
    }
  }
  return stand_ins;
}

std::vector<Rank> StandInsOf(const Plan& plan) {
  return StandInsOf(plan, [](const std::vector<int>&) { return std::string(); });
}

}  // namespace medley
