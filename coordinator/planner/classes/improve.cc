#include "coordinator/planner/classes/improve.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/predictor/cost_model.h"

namespace medley {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
// Plans are not predicted that are estimated to take so much longer than the one they are neighbours of, nor more of them.
constexpr double kHopeful = 1.04;
constexpr size_t kMostOfNeighbours = 24;
// What is less faster is as fast.
constexpr double kFaster = 1 - 2e-4;

std::string KeyOf(const RouteShape& shape) {
  std::string key = absl::StrCat(shape.size);
  for (const StageForm& stage : shape.stages)
    absl::StrAppend(&key, ";", stage.kind, ",", stage.layers, ",", stage.units);
  return key;
}

std::string KeyOf(const ClassedPlan& plan) {
  std::string key;
  for (const ShapedRoutes& of : plan.routes)
    absl::StrAppend(&key, KeyOf(of.shape), "x", of.routes, "x", of.micro_batches, "|");
  return key;
}

// Routes of each shape once.
std::vector<ShapedRoutes> Merged(const std::vector<ShapedRoutes>& routes) {
  std::vector<ShapedRoutes> merged;
  for (const ShapedRoutes& of : routes) {
    if (of.routes <= 0) continue;
    const std::string key = KeyOf(of.shape);
    const auto known = std::find_if(merged.begin(), merged.end(),
                                    [&](const ShapedRoutes& other) { return KeyOf(other.shape) == key; });
    if (known == merged.end()) {
      merged.push_back(of);
    } else {
      known->routes += of.routes;
    }
  }
  return merged;
}

// The first stage of each kind.
std::vector<size_t> FirstOfKinds(const RouteShape& shape) {
  std::vector<size_t> first;
  for (size_t s = 0; s < shape.stages.size(); ++s) {
    const auto is_own = [&](size_t other) { return shape.stages[other].kind == shape.stages[s].kind; };
    if (std::none_of(first.begin(), first.end(), is_own)) first.push_back(s);
  }
  return first;
}

// Each two stages of a kind that follow each other as one, on twice as many routes; none: some have no other.
std::optional<ShapedRoutes> Folded(const ShapedRoutes& routes) {
  const std::vector<StageForm>& stages = routes.shape.stages;
  if (stages.size() % 2 != 0 || routes.shape.is_bundle()) return std::nullopt;
  ShapedRoutes folded{{routes.shape.size, {}}, 2 * routes.routes, 0};
  for (size_t s = 0; s < stages.size(); s += 2) {
    if (stages[s].kind != stages[s + 1].kind) return std::nullopt;
    folded.shape.stages.push_back(
        {.kind = stages[s].kind, .layers = stages[s].layers + stages[s + 1].layers});
  }
  return folded;
}

std::optional<ShapedRoutes> Unfolded(const ShapedRoutes& routes) {
  if (routes.routes % 2 != 0 || routes.shape.is_bundle()) return std::nullopt;
  ShapedRoutes unfolded{{routes.shape.size, {}}, routes.routes / 2, 0};
  for (const StageForm& stage : routes.shape.stages) {
    if (stage.layers < 2) return std::nullopt;
    unfolded.shape.stages.push_back({.kind = stage.kind, .layers = (stage.layers + 1) / 2});
    unfolded.shape.stages.push_back({.kind = stage.kind, .layers = stage.layers / 2});
  }
  return unfolded;
}

// Of that class and degree; -1: it was not measured.
int KindOf(const StageTable& table, int device_class, int degree) {
  const std::vector<StageKind>& kinds = table.kinds();
  for (size_t k = 0; k < kinds.size(); ++k) {
    if (kinds[k].device_class == device_class && kinds[k].degree == degree) return static_cast<int>(k);
  }
  return -1;
}

}  // namespace

LocalSearch::Candidate LocalSearch::Dealt(Routes routes) {
  routes = Merged(routes);
  for (const ShapedRoutes& of : routes) {
    if (static_cast<int>(of.shape.stages.size()) > moves_.most_stages) return {};
  }
  if (routes.empty() || RoutesOf(routes) > moves_.most_routes) return {};
  const int count = ReplicasOf(routes);
  StageTable& table = moves_.table_of(count);
  if (!moves_.resources->Has(moves_.resources->Uses(DevicesOf(table, routes)))) return {};
  int least_degree = std::numeric_limits<int>::max();
  for (const ShapedRoutes& of : routes) {
    for (const StageForm& stage : of.shape.stages)
      least_degree = std::min(least_degree, table.kinds()[stage.kind].degree);
  }
  const SumModel& sums = moves_.sums_of(count, least_degree);
  double longest_seconds = 0;
  for (ShapedRoutes& of : routes) {
    NumberStages(of.shape);
    if (!FitWithLeast(table, of.shape)) return {};
    longest_seconds = std::max(longest_seconds, sums.LongestStreamSeconds(table, of.shape));
  }
  std::vector<std::vector<double>> after;
  std::vector<TimedRoutes> timed;
  after.reserve(routes.size());
  for (const ShapedRoutes& of : routes) {
    after.push_back(sums.AfterSeconds(table, of.shape, longest_seconds));
    // Routes of a table are of about as many replicas, and so their sums alike.
    const std::string key =
        absl::StrCat(reinterpret_cast<uintptr_t>(&table), "d", least_degree, ":", KeyOf(of.shape));
    auto clock = clocks_.find(key);
    if (clock == clocks_.end())
      clock =
          clocks_.emplace(key, RouteClock(table, of.shape, sums.FirstForwardSeconds(table, of.shape))).first;
    timed.push_back({&clock->second, &after.back(), of.routes});
  }
  const int sequences = table.problem().shape.global_batch_sequences;
  Candidate dealt{DealMicroBatches(timed, sequences, 1e-6), &table};
  if (moves_.estimate && !dealt.plan.empty())
    dealt.plan.estimated_seconds = moves_.estimate(table, dealt.plan);
  return dealt;
}

// By so many layers, up to half of what there are; of few stages one layer goes to any other, too.
void LocalSearch::AddShifts(const Routes& routes, std::vector<Routes>& all) {
  constexpr size_t kFewStages = 8;
  for (size_t i = 0; i < routes.size(); ++i) {
    const size_t stages = routes[i].shape.stages.size();
    // False: there are not as many.
    const auto shift = [&](size_t from, size_t to, int layers) {
      Routes next = routes;
      StageForm& giver = next[i].shape.stages[from];
      giver.layers -= layers;
      const bool ends = from == 0 || from + 1 == stages;
      if (giver.layers < (ends ? 0 : 1)) return false;
      next[i].shape.stages[to].layers += layers;
      all.push_back(std::move(next));
      return true;
    };
    for (size_t from = 0; from < stages; ++from) {
      for (size_t to = 0; to < stages; ++to) {
        const bool neighbours = from + 1 == to || to + 1 == from;
        if (neighbours) {
          for (int layers = 1; shift(from, to, layers); layers *= 2) {
          }
        } else if (from != to && stages <= kFewStages) {
          shift(from, to, 1);
        }
      }
    }
  }
}

void LocalSearch::AddExchanges(StageTable& table, const Routes& routes, std::vector<Routes>& all) {
  const auto add = [&](const Routes& rest, std::vector<ShapedRoutes> changed) {
    for (ShapedRoutes& of : changed) {
      if (!DealLayers(table, of.shape)) return;
    }
    Routes next = rest;
    next.insert(next.end(), changed.begin(), changed.end());
    for (const ShapedRoutes& of : changed) {
      std::optional<ShapedRoutes> folded = Folded(of);
      if (!folded) continue;
      Routes with_folded = next;
      for (ShapedRoutes& other : with_folded) {
        if (KeyOf(other.shape) == KeyOf(of.shape)) other = *folded;
      }
      all.push_back(std::move(with_folded));
    }
    all.push_back(std::move(next));
  };
  for (size_t i = 0; i < routes.size(); ++i) {
    for (const size_t a : FirstOfKinds(routes[i].shape)) {
      for (size_t j = i; j < routes.size(); ++j) {
        for (const size_t b : FirstOfKinds(routes[j].shape)) {
          const int kind_a = routes[i].shape.stages[a].kind, kind_b = routes[j].shape.stages[b].kind;
          if (kind_a == kind_b || (i == j && b <= a)) continue;
          const int count = std::min(routes[i].routes, routes[j].routes);
          Routes rest = routes;
          rest[i].routes -= count;
          ShapedRoutes one = routes[i], other = routes[j];
          one.routes = other.routes = count;
          if (i == j) {
            std::swap(one.shape.stages[a], one.shape.stages[b]);
            add(Merged(rest), {one});
            continue;
          }
          rest[j].routes -= count;
          std::swap(one.shape.stages[a].kind, other.shape.stages[b].kind);
          add(Merged(rest), {one, other});
        }
      }
    }
  }
}

void LocalSearch::AddOtherKinds(StageTable& table, const Routes& routes, std::vector<Routes>& all) {
  const auto add = [&](size_t i, ShapedRoutes changed) {
    if (changed.routes == 0 || !DealLayers(table, changed.shape)) return;
    Routes next = routes;
    next[i] = std::move(changed);
    all.push_back(std::move(next));
  };
  for (size_t i = 0; i < routes.size(); ++i) {
    for (const size_t s : FirstOfKinds(routes[i].shape)) {
      for (int kind = 0; kind < static_cast<int>(table.kinds().size()); ++kind) {
        if (kind == routes[i].shape.stages[s].kind) continue;
        ShapedRoutes changed = routes[i];
        changed.shape.stages[s].kind = kind;
        add(i, std::move(changed));
      }
    }
    for (const bool wider : {false, true}) {
      ShapedRoutes changed = routes[i];
      changed.routes = wider ? changed.routes / 2 : 2 * changed.routes;
      bool measured = true;
      for (StageForm& stage : changed.shape.stages) {
        const StageKind& kind = table.kinds()[stage.kind];
        const int degree = wider ? 2 * kind.degree : kind.degree / 2;
        stage.kind = KindOf(table, kind.device_class, degree);
        measured = measured && stage.kind >= 0;
      }
      if (measured) add(i, std::move(changed));
    }
  }
}

// Two stages of a class that follow each other become one of twice as many devices, and the other way round.
void LocalSearch::AddJoins(StageTable& table, const Routes& routes, std::vector<Routes>& all) {
  const auto add = [&](size_t i, RouteShape shape) {
    if (!DealLayers(table, shape)) return;
    Routes next = routes;
    next[i].shape = std::move(shape);
    all.push_back(std::move(next));
  };
  for (size_t i = 0; i < routes.size(); ++i) {
    const RouteShape& shape = routes[i].shape;
    for (size_t s = 0; s < shape.stages.size(); ++s) {
      const StageKind& kind = table.kinds()[shape.stages[s].kind];
      const int wider = KindOf(table, kind.device_class, 2 * kind.degree),
                narrower = kind.degree % 2 == 0 ? KindOf(table, kind.device_class, kind.degree / 2) : -1;
      if (wider >= 0 && s + 1 < shape.stages.size() && shape.stages[s + 1].kind == shape.stages[s].kind) {
        RouteShape joined = shape;
        joined.stages.erase(joined.stages.begin() + static_cast<std::ptrdiff_t>(s));
        joined.stages[s].kind = wider;
        add(i, std::move(joined));
      }
      if (narrower >= 0) {
        RouteShape parted = shape;
        parted.stages[s].kind = narrower;
        parted.stages.insert(parted.stages.begin() + static_cast<std::ptrdiff_t>(s), parted.stages[s]);
        add(i, std::move(parted));
      }
    }
  }
}

void LocalSearch::AddFolds(StageTable& table, const Routes& routes, std::vector<Routes>& all) {
  for (const bool unfold : {false, true}) {
    Routes every = routes;  // each that can be
    bool any = false;
    for (size_t i = 0; i < routes.size(); ++i) {
      std::optional<ShapedRoutes> changed = unfold ? Unfolded(routes[i]) : Folded(routes[i]);
      if (!changed) continue;
      Routes next = routes;
      next[i] = every[i] = *changed;
      any = true;
      all.push_back(next);
      if (DealLayers(table, next[i].shape)) all.push_back(std::move(next));
    }
    if (any) all.push_back(std::move(every));
  }
}

void LocalSearch::AddOtherCounts(StageTable& table, const Routes& routes, std::vector<Routes>& all) const {
  const PlanningProblem& problem = table.problem();
  for (int size = 0; size < static_cast<int>(problem.micro_batch_sizes.size()); ++size) {
    if (!DividesBatch(problem, problem.micro_batch_sizes[size])) continue;
    Routes every = routes;
    for (size_t i = 0; i < routes.size(); ++i) {
      every[i].shape.size = size;
      Routes next = routes;
      next[i].shape.size = size;
      all.push_back(std::move(next));
    }
    all.push_back(std::move(every));
  }
  for (size_t i = 0; i < routes.size(); ++i) {
    for (int out = routes[i].routes; out > 0; out /= 2) {
      Routes fewer = routes;
      fewer[i].routes -= out;
      all.push_back(fewer);
      const std::vector<int> devices = DevicesOf(table, fewer);
      for (size_t j = 0; j < routes.size(); ++j) {
        if (j == i) continue;
        const std::vector<int> own = DevicesOf(table, routes[j].shape);
        int more = moves_.most_routes;
        for (size_t c = 0; c < own.size(); ++c) {
          if (own[c] > 0) more = std::min(more, (table.classes()[c].devices - devices[c]) / own[c]);
        }
        if (more <= 0) continue;
        Routes next = fewer;
        next[j].routes += more;
        all.push_back(std::move(next));
      }
    }
  }
}

// A micro-batch less on each route of some, or on as many as give each route of others one.
std::vector<LocalSearch::Candidate> LocalSearch::PassedOn(StageTable& table, const ClassedPlan& plan) {
  std::vector<Candidate> all;
  const std::vector<int>& sizes = table.problem().micro_batch_sizes;
  for (size_t i = 0; i < plan.routes.size(); ++i) {
    for (size_t j = 0; j < plan.routes.size(); ++j) {
      const ShapedRoutes &giver = plan.routes[i], &taker = plan.routes[j];
      if (i == j || giver.micro_batches < 2) continue;
      const int given = sizes[giver.shape.size], taken = sizes[taker.shape.size];
      int givers = giver.routes, takers = giver.routes * given / taken;
      if (giver.routes * given % taken != 0 || takers > taker.routes) {
        takers = taker.routes;
        givers = takers * taken / given;
        if (takers * taken % given != 0 || givers > giver.routes) continue;
      }
      ClassedPlan next = plan;
      next.routes[i].routes -= givers;
      next.routes[j].routes -= takers;
      next.routes.push_back({giver.shape, givers, giver.micro_batches - 1});
      next.routes.push_back({taker.shape, takers, taker.micro_batches + 1});
      std::erase_if(next.routes, [](const ShapedRoutes& of) { return of.routes == 0; });
      all.push_back({std::move(next), &table});
    }
  }
  return all;
}

// Those that are the most hopeful, the best first.
std::vector<LocalSearch::Candidate> LocalSearch::Neighbours(StageTable& table, const ClassedPlan& plan) {
  const Routes routes = Merged(plan.routes);
  std::vector<Routes> all;
  AddShifts(routes, all);
  AddExchanges(table, routes, all);
  AddOtherKinds(table, routes, all);
  AddFolds(table, routes, all);
  AddJoins(table, routes, all);
  AddOtherCounts(table, routes, all);
  const double own = Dealt(routes).plan.estimated_seconds;
  std::vector<Candidate> hopeful;
  for (Routes& next : all) {
    if (stopped()) return {};
    Candidate candidate = Dealt(std::move(next));
    if (!candidate.plan.empty() && candidate.plan.estimated_seconds <= kHopeful * own)
      hopeful.push_back(std::move(candidate));
  }
  std::stable_sort(hopeful.begin(), hopeful.end(), [](const Candidate& a, const Candidate& b) {
    return a.plan.estimated_seconds < b.plan.estimated_seconds;
  });
  return hopeful;
}

int LocalSearch::ImproveFrom(ClassedPlan plan, double step_seconds, int most_predictions) {
  int predictions = 0;
  // Until one is faster.
  const auto improve = [&](std::vector<Candidate> neighbours) {
    size_t looked_at = 0;
    for (Candidate& next : neighbours) {
      if (predictions == most_predictions || looked_at == kMostOfNeighbours || stopped()) return false;
      if (!predicted_.insert(KeyOf(next.plan)).second) continue;
      ++predictions;
      ++looked_at;
      const double seconds = moves_.predict(*next.table, next.plan);
      if (seconds >= kFaster * step_seconds) continue;
      step_seconds = seconds;
      plan = std::move(next.plan);
      return true;
    }
    return false;
  };
  bool faster = true;
  while (faster && !stopped()) {
    StageTable& table = moves_.table_of(plan.replicas());
    faster = improve(Neighbours(table, plan)) || improve(PassedOn(table, plan));
  }
  return predictions;
}

}  // namespace medley
