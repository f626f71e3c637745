#include "coordinator/planner/classes/place_routes.h"

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

namespace medley {
namespace {

// The devices of a class that are left, by host.
class FreeDevices {
 public:
  explicit FreeDevices(const DeviceClass& of) : left_(of.hosts) {}

  // Of one host: of the last one if it has enough; else of that with the fewest left among those with room for all
  // that remains of the route, or with the most among the others.
  std::optional<std::vector<int>> Take(int count, int remaining, int& last_host) {
    const auto has = [&](int host, int wanted) { return static_cast<int>(left_[host].size()) >= wanted; };
    int host = last_host >= 0 && has(last_host, count) ? last_host : -1;
    if (host < 0) {
      for (int h = 0; h < static_cast<int>(left_.size()); ++h) {
        if (!has(h, count)) continue;
        const bool all_here = has(h, remaining), all_there = host >= 0 && has(host, remaining);
        const bool better = host < 0                ? true
                            : all_here != all_there ? all_here
                            : all_here              ? left_[h].size() < left_[host].size()
                                                    : left_[h].size() > left_[host].size();
        if (better) host = h;
      }
    }
    if (host < 0) return std::nullopt;
    std::vector<int>& from = left_[host];
    std::vector<int> taken(from.begin(), from.begin() + count);
    from.erase(from.begin(), from.begin() + count);
    last_host = host;
    return taken;
  }

  void GiveBack(int host, const std::vector<int>& devices) {
    left_[host].insert(left_[host].begin(), devices.begin(), devices.end());
  }

 private:
  std::vector<std::vector<int>> left_;
};

int MostDegree(const StageTable& table, const RouteShape& shape) {
  int most = 1;
  for (const StageForm& stage : shape.stages) most = std::max(most, table.kinds()[stage.kind].degree);
  return most;
}

class Placing {
 public:
  explicit Placing(const StageTable& table) : table_(table) {
    for (const DeviceClass& of : table.classes()) free_.emplace_back(of);
  }

  // All of them; false if they have no place so.
  bool AddByBlocks(const std::vector<ShapedRoutes>& all) {
    struct PlacedUnit {
      int degree = 1, first_layer = 0, end_layer = 0, device_class = 0;
      size_t route = 0, stage = 0;
    };
    std::vector<const ShapedRoutes*> routes;
    std::vector<PlacedUnit> units;
    std::vector<int> remaining(free_.size(), 0), last_host(free_.size(), -1);
    for (const ShapedRoutes& shaped : all) {
      for (int i = 0; i < shaped.routes; ++i) {
        int layer = 0;
        for (size_t s = 0; s < shaped.shape.stages.size(); ++s) {
          const StageForm& form = shaped.shape.stages[s];
          const StageKind& kind = table_.kinds()[form.kind];
          units.insert(units.end(), form.units,
                       {kind.degree, layer, layer + form.layers, kind.device_class, routes.size(), s});
          layer += form.layers;
          remaining[kind.device_class] += kind.degree * form.units;
        }
        routes.push_back(&shaped);
      }
    }
    // The largest units first, as below.
    std::stable_sort(units.begin(), units.end(), [](const PlacedUnit& a, const PlacedUnit& b) {
      return std::tie(b.degree, a.first_layer, a.end_layer) < std::tie(a.degree, b.first_layer, b.end_layer);
    });
    std::vector<DevicesOfStages> devices(routes.size());
    for (size_t r = 0; r < routes.size(); ++r) devices[r].resize(routes[r]->shape.stages.size());
    for (const PlacedUnit& unit : units) {
      const int c = unit.device_class;
      std::optional<std::vector<int>> taken = free_[c].Take(unit.degree, remaining[c], last_host[c]);
      if (!taken) return false;
      remaining[c] -= unit.degree;
      devices[unit.route][unit.stage].push_back(*std::move(taken));
    }
    for (size_t r = 0; r < routes.size(); ++r) Append(*routes[r], devices[r]);
    return true;
  }

  // How many of them have a place.
  int Add(const ShapedRoutes& routes) {
    for (int i = 0; i < routes.routes; ++i) {
      if (!AddRoute(routes)) return i;
    }
    return routes.routes;
  }
  Plan Take() {
    plan_.schedule = ScheduleByClasses(table_.problem().constraints);
    return std::move(plan_);
  }

 private:
  using DevicesOfStages = std::vector<std::vector<std::vector<int>>>;  // of each unit of each stage

  bool AddRoute(const ShapedRoutes& routes) {
    const std::vector<StageForm>& stages = routes.shape.stages;
    std::vector<int> remaining = DevicesOf(table_, routes.shape), last_host(free_.size(), -1);
    struct Taken {
      int device_class, host;
      std::vector<int> devices;
    };
    std::vector<Taken> taken;
    DevicesOfStages devices(stages.size());
    for (size_t s = 0; s < stages.size(); ++s) {
      const StageKind& kind = table_.kinds()[stages[s].kind];
      const int c = kind.device_class;
      for (int u = 0; u < stages[s].units; ++u) {
        std::optional<std::vector<int>> of_unit = free_[c].Take(kind.degree, remaining[c], last_host[c]);
        if (!of_unit) {
          for (auto t = taken.rbegin(); t != taken.rend(); ++t)
            free_[t->device_class].GiveBack(t->host, t->devices);
          return false;
        }
        remaining[c] -= kind.degree;
        taken.push_back({c, last_host[c], *of_unit});
        devices[s].push_back(*std::move(of_unit));
      }
    }
    Append(routes, devices);
    return true;
  }

  // A route of these, or a bundle, whose stages are on those devices.
  void Append(const ShapedRoutes& routes, const DevicesOfStages& devices) {
    const PlanningProblem& problem = table_.problem();
    const std::vector<StageForm>& stages = routes.shape.stages;
    const ModelConfig& model = problem.shape.model;
    std::vector<int> first_units;  // of each stage
    BlockId first = 0;
    for (size_t s = 0; s < stages.size(); ++s) {
      const bool last = s + 1 == stages.size();
      const BlockId end =
          last ? BlockId(model.blocks()) : BlockId(first + stages[s].layers + (s == 0 ? 1 : 0));
      first_units.push_back(static_cast<int>(plan_.units.size()));
      for (const std::vector<int>& of_unit : devices[s]) {
        Unit unit{.chunks = {{first, end}}, .activations = table_.kinds()[stages[s].kind].cost.activations};
        stages[s].saving.Set(unit);
        for (const int d : of_unit) unit.devices.push_back(problem.devices[d].name);
        plan_.units.push_back(std::move(unit));
      }
      first = end;
    }
    const int turns = routes.shape.routes();
    for (int turn = 0; turn < turns; ++turn) {
      Route route{{},
                  routes.micro_batches / turns + (turn < routes.micro_batches % turns ? 1 : 0),
                  problem.micro_batch_sizes[routes.shape.size]};
      for (size_t s = 0; s < stages.size(); ++s)
        route.units.push_back(first_units[s] + turn % stages[s].units);
      plan_.routes.push_back(std::move(route));
    }
  }

  const StageTable& table_;
  std::vector<FreeDevices> free_;
  Plan plan_;
};

}  // namespace

Plan PlaceRoutes(const StageTable& table, std::vector<ShapedRoutes>& routes) {
  // The largest units first: what they leave of hosts the smaller ones fill.
  std::stable_sort(routes.begin(), routes.end(), [&](const ShapedRoutes& a, const ShapedRoutes& b) {
    return MostDegree(table, a.shape) > MostDegree(table, b.shape);
  });
  Placing placing(table);
  bool whole = true;
  for (ShapedRoutes& one : routes) {
    const int placed = placing.Add(one);
    whole = whole && placed == one.routes;
    one.routes = placed;
  }
  std::erase_if(routes, [](const ShapedRoutes& one) { return one.routes == 0; });
  return whole ? placing.Take() : Plan{};
}

Plan PlaceByBlocks(const StageTable& table, const std::vector<ShapedRoutes>& routes) {
  Placing placing(table);
  const bool pipelines = std::any_of(routes.begin(), routes.end(),
                                     [](const ShapedRoutes& one) { return one.shape.stages.size() > 1; });
  return pipelines && placing.AddByBlocks(routes) ? placing.Take() : Plan{};
}

}  // namespace medley
