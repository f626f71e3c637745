#include "coordinator/planner/techniques/sharing.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "absl/strings/str_cat.h"
#include "coordinator/planner/techniques/exchange_parts.h"
#include "coordinator/predictor/pass_costs.h"
#include "coordinator/predictor/reductions.h"
#include "runtime/ir/model/parameters.h"

namespace medley {
namespace {

// What products compute in.
constexpr int kGrain = 16;

// Parts of `size` in proportion to `speeds`, none empty, of whole grains where there are enough of them.
std::vector<int> PartsBySpeed(int size, const std::vector<double>& speeds) {
  const int parts = static_cast<int>(speeds.size());
  const int grain = size % kGrain == 0 && size >= 4 * parts * kGrain ? kGrain : 1;
  const int grains = size / grain;
  const double sum = std::accumulate(speeds.begin(), speeds.end(), 0.0);
  std::vector<int> result(parts);
  std::vector<double> wanted(parts);
  for (int p = 0; p < parts; ++p) {
    wanted[p] = grains * speeds[p] / sum;
    result[p] = std::max(1, static_cast<int>(wanted[p]));
  }
  // What is over or missing goes to whom it brings nearest to what it should have.
  for (int left = grains - std::accumulate(result.begin(), result.end(), 0); left != 0;) {
    int best = -1;
    for (int p = 0; p < parts; ++p) {
      if (left < 0 && result[p] < 2) continue;
      const bool nearer = best < 0 || (left > 0 ? wanted[p] - result[p] > wanted[best] - result[best]
                                                : wanted[p] - result[p] < wanted[best] - result[best]);
      if (nearer) best = p;
    }
    result[best] += left > 0 ? 1 : -1;
    left += left > 0 ? -1 : 1;
  }
  for (int& part : result) part *= grain;
  return result;
}

// Of a device with an even share, forward and backward of a layer with the largest micro-batch; 0: not
// measured.
double LayerSeconds(const PlanningProblem& problem, int device, const ModelShare& share) {
  const std::optional<RankCosts> costs = CostsOf(problem.devices[device], problem.shape.model, share);
  return costs && !costs->times.empty() ? costs->times.back().layer.Seconds() : 0;
}

std::vector<ModelShare> SharesOfUnit(const PlanningProblem& problem, const std::vector<int>& devices,
                                     Sharing sharing) {
  std::vector<ModelShare> even = EvenShares(problem.shape.model, static_cast<int>(devices.size()));
  const bool alike = std::all_of(devices.begin(), devices.end(), [&](int d) {
    return problem.devices[d].kind == problem.devices[devices.front()].kind;
  });
  if (sharing == Sharing::kEven || alike) return even;
  std::vector<double> speeds;
  for (size_t m = 0; m < devices.size(); ++m) {
    const double seconds = LayerSeconds(problem, devices[m], even[m]);
    if (seconds <= 0) return even;
    speeds.push_back(1 / seconds);
  }
  return SharesBySpeed(problem.shape.model, speeds);
}

// How much longer each of the devices of a unit takes for what `shared` is of because the others compute.
double SlowdownWithin(const PlanningProblem& problem, const SharedUnit& unit, int device,
                      double DeviceCost::*shared = &DeviceCost::shared_slowdown) {
  const DeviceCost& cost = problem.devices[device];
  const auto on_processor = std::count_if(unit.devices.begin(), unit.devices.end(), [&](int other) {
    return problem.devices[other].processor == cost.processor;
  });
  return static_cast<double>(on_processor) *
         SlowdownBeside(cost, cost.*shared, static_cast<int>(unit.devices.size()) - 1);
}

// A link between units whose ranks each carry a part.
LinkModel Together(const std::vector<const LinkModel*>& links) {
  const double parts = static_cast<double>(links.size());
  std::set<double> sizes;
  for (const LinkModel* link : links) {
    for (const LinkPoint& point : link->points) sizes.insert(point.bytes * parts);
  }
  if (!sizes.empty()) sizes.insert({0, 2 * *sizes.rbegin() + parts});
  LinkModel model;
  for (const double bytes : sizes) {
    double seconds = 0;
    for (const LinkModel* link : links) seconds = std::max(seconds, link->Seconds(bytes / parts));
    model.points.push_back({bytes, seconds});
  }
  return model;
}

// Whether a unit cuts micro-batches of each size into as many parts as it best does.
enum class Parts : uint8_t { kOne, kBest };

class UnitCosts {
 public:
  explicit UnitCosts(const PlanningProblem& problem) : problem_(problem), reductions_(problem) {}

  DeviceCost CostOf(const SharedUnit& unit, Parts parts) {
    const ModelConfig& model = problem_.shape.model;
    const DeviceCost& first = problem_.devices[unit.devices.front()];
    DeviceCost cost{.processor = first.processor, .host = first.host, .activations = first.activations};
    cost.host_memory = first.host_memory;
    cost.fetch_bytes_per_second = first.fetch_bytes_per_second;
    cost.store_bytes_per_second = first.store_bytes_per_second;
    cost.times.resize(problem_.micro_batch_sizes.size());
    const std::vector<Unit> cut = OfSizes(unit, parts);
    const int layer = SegmentOfBlock(BlockOfLayer(0)).value();
    for (size_t m = 0; m < unit.devices.size(); ++m) {
      const DeviceCost& device = problem_.devices[unit.devices[m]];
      absl::StrAppend(&cost.name, m > 0 ? "+" : "", device.name);
      absl::StrAppend(&cost.kind, m > 0 ? "+" : "", device.kind);
      cost.room.memory += device.room.memory;  // limits of buffers are its ranks' own
      cost.price_per_hour += device.price_per_hour;
      cost.fetch_bytes_per_second = std::min(cost.fetch_bytes_per_second, device.fetch_bytes_per_second);
      cost.store_bytes_per_second = std::min(cost.store_bytes_per_second, device.store_bytes_per_second);
      const std::optional<RankCosts> rank = CostsOf(device, model, unit.shares[m]);
      if (!rank) continue;
      const double slowdown = SlowdownWithin(problem_, unit, unit.devices[m]);
      for (size_t size = 0; size < cost.times.size(); ++size) {
        const absl::StatusOr<BlockTimes> times =
            TimesInParts(problem_, rank->times, problem_.micro_batch_sizes[size], cut[size].exchange_parts);
        if (times.ok()) Cover(*times, slowdown, cost.times[size]);
      }
      const double part = static_cast<double>(SegmentElements(LocalModel(model, unit.shares[m]), layer)) /
                          static_cast<double>(SegmentElements(model, layer));
      const double of_part =
          part * SlowdownWithin(problem_, unit, unit.devices[m], &DeviceCost::shared_update_slowdown);
      cost.update_seconds_per_parameter =
          std::max(cost.update_seconds_per_parameter, of_part * rank->update_seconds_per_parameter);
      cost.norm_seconds_per_parameter =
          std::max(cost.norm_seconds_per_parameter, of_part * rank->norm_seconds_per_parameter);
    }
    AddExchanges(cut, cost);
    return cost;
  }

 private:
  static void Cover(const BlockTimes& rank, double slowdown, BlockTimes& all) {
    for (const auto block : {&BlockTimes::embedding, &BlockTimes::layer, &BlockTimes::head}) {
      for (const auto pass : kAllPassTimes) {
        (all.*block).*pass = std::max((all.*block).*pass, slowdown * (rank.*block.*pass));
      }
    }
  }

  // With whole blocks, as it passes micro-batches of each size.
  std::vector<Unit> OfSizes(const SharedUnit& shared, Parts parts) {
    Unit unit = UnitOf(problem_, shared, {0, problem_.shape.model.blocks()});
    std::vector<Unit> of_sizes;
    for (const int sequences : problem_.micro_batch_sizes) {
      of_sizes.push_back(unit);
      if (parts == Parts::kBest && !unit.sequence_parallel)
        of_sizes.back().exchange_parts = BestParts(problem_, reductions_, unit, sequences);
    }
    return of_sizes;
  }

  void AddExchanges(const std::vector<Unit>& cut, DeviceCost& cost) {
    const ModelConfig& model = problem_.shape.model;
    for (size_t size = 0; size < cost.times.size(); ++size) {
      const absl::StatusOr<UnitPasses> passes =
          UnitPasses::Make(problem_, reductions_, cut[size], problem_.micro_batch_sizes[size]);
      if (!passes.ok()) continue;  // parts that are taken have been measured
      // Of a layer the mean: in parts, what the last of them sums is hidden by the next layer.
      for (const auto& [times, blocks] :
           {std::pair(&cost.times[size].embedding, BlockRange{model.embedding_block(), BlockOfLayer(0)}),
            std::pair(&cost.times[size].layer, BlockRange{BlockOfLayer(0), model.head_block()}),
            std::pair(&cost.times[size].head, BlockRange{model.head_block(), model.blocks()})}) {
        times->forward_seconds += passes->ExchangeSeconds(InstructionKind::kForward, blocks) / blocks.size();
        times->backward_seconds +=
            passes->ExchangeSeconds(InstructionKind::kBackward, blocks) / blocks.size();
      }
    }
  }

  const PlanningProblem& problem_;
  Reductions reductions_;
};

}  // namespace

std::vector<ModelShare> SharesBySpeed(const ModelConfig& config, const std::vector<double>& speeds) {
  const int degree = static_cast<int>(speeds.size()), keys = config.key_value_head_count();
  const auto in_turn = [](const std::vector<int>& sizes) {
    std::vector<IndexRange> ranges;
    int first = 0;
    for (const int size : sizes) ranges.push_back({first, first + size}), first += size;
    return ranges;
  };
  const std::vector<IndexRange> columns = in_turn(PartsBySpeed(config.feed_forward, speeds)),
                                rows = in_turn(PartsBySpeed(config.vocabulary, speeds));
  std::vector<int> queries;  // of ranks that share key-value heads, by speed among those that share one
  if (degree > keys) {
    for (const IndexRange& members : MembersByKey(config, degree)) {
      const std::vector<int> parts =
          PartsBySpeed(config.heads / keys, {speeds.begin() + members.first, speeds.begin() + members.end});
      queries.insert(queries.end(), parts.begin(), parts.end());
    }
  }
  const std::vector<IndexRange> heads = in_turn(degree > keys ? queries : PartsBySpeed(keys, speeds));
  std::vector<ModelShare> shares;
  for (int member = 0; member < degree; ++member) {
    shares.push_back({.feed_forward = columns[member], .vocabulary = rows[member]});
    (degree > keys ? shares.back().query_heads : shares.back().key_value_heads) = heads[member];
  }
  return shares;
}

std::vector<SharedUnit> UnitsOfDegree(const PlanningProblem& problem, int degree, Sharing sharing) {
  if (degree < 2 || !SharingObjection(problem.shape.model, degree).empty()) return {};
  std::map<int, std::vector<int>> by_host;
  for (int d = 0; d < static_cast<int>(problem.devices.size()); ++d) {
    if (problem.devices[d].host >= 0) by_host[problem.devices[d].host].push_back(d);
  }
  std::vector<SharedUnit> units;
  const auto add = [&](std::vector<int> devices) {
    std::vector<ModelShare> shares = SharesOfUnit(problem, devices, sharing);
    units.push_back({std::move(devices), std::move(shares)});
  };
  const auto cut = [&](const std::vector<int>& devices) {  // those that are left
    size_t next = 0;
    for (; next + degree <= devices.size(); next += degree)
      add({devices.begin() + next, devices.begin() + next + degree});
    return std::vector<int>(devices.begin() + next, devices.end());
  };
  for (const auto& [host, devices] : by_host) {
    std::vector<std::string> kinds;
    for (const int d : devices) {
      const std::string& kind = problem.devices[d].kind;
      if (std::find(kinds.begin(), kinds.end(), kind) == kinds.end()) kinds.push_back(kind);
    }
    std::vector<int> left;
    for (const std::string& kind : kinds) {
      std::vector<int> alike;
      for (const int d : devices) {
        if (problem.devices[d].kind == kind) alike.push_back(d);
      }
      const std::vector<int> rest = cut(alike);
      left.insert(left.end(), rest.begin(), rest.end());
    }
    cut(left);
  }
  return units;
}

std::vector<std::vector<SharedUnit>> WaysToShare(const PlanningProblem& problem, int degree) {
  std::vector<std::vector<SharedUnit>> ways;
  if (std::vector<SharedUnit> even = UnitsOfDegree(problem, degree, Sharing::kEven); !even.empty())
    ways.push_back(std::move(even));
  for (SharedUnit& unit : UnitsOfDegree(problem, degree, Sharing::kBySpeed)) {
    if (unit.shares == ways.front().front().shares) continue;
    const auto same = std::find_if(ways.begin() + 1, ways.end(), [&](const std::vector<SharedUnit>& way) {
      return way.front().shares == unit.shares;
    });
    if (same == ways.end()) {
      ways.push_back({std::move(unit)});
    } else {
      same->push_back(std::move(unit));
    }
  }
  return ways;
}

int MostDevicesOfHost(const PlanningProblem& problem) {
  std::map<int, int> devices;
  int most = 0;
  for (const DeviceCost& device : problem.devices) {
    if (device.host >= 0) most = std::max(most, ++devices[device.host]);
  }
  return most;
}

Unit UnitOf(const PlanningProblem& problem, const SharedUnit& shared, BlockRange blocks) {
  Unit unit{.chunks = {blocks},
            .activations = problem.devices[shared.devices.front()].activations,
            .sequence_parallel = shared.sequence_parallel};
  for (const int device : shared.devices) unit.devices.push_back(problem.devices[device].name);
  if (shared.shares != EvenShares(problem.shape.model, static_cast<int>(unit.devices.size())))
    unit.shares = shared.shares;
  return unit;
}

DeviceCost CostOfUnit(const PlanningProblem& problem, const SharedUnit& unit) {
  return UnitCosts(problem).CostOf(unit, Parts::kOne);
}

UnitProblem MakeUnitProblem(const PlanningProblem& problem, std::vector<SharedUnit> units) {
  UnitProblem result{.units = std::move(units)};
  result.problem = problem;
  PlanningProblem& of_units = result.problem;
  of_units.devices.clear();
  UnitCosts costs(problem);
  for (const SharedUnit& unit : result.units) of_units.devices.push_back(costs.CostOf(unit, Parts::kBest));
  const size_t count = result.units.size();
  of_units.links = DeviceLinks(static_cast<int>(count));
  for (size_t a = 0; a < count; ++a) {
    for (size_t b = 0; b < a; ++b) {
      std::vector<const LinkModel*> transfers, exchanges;
      for (size_t m = 0; m < result.units[a].devices.size(); ++m) {
        const LinkCost& link = problem.links.Between(result.units[a].devices[m], result.units[b].devices[m]);
        transfers.push_back(&link.transfer);
        exchanges.push_back(&link.exchange);
      }
      of_units.links.Set(static_cast<int>(a), static_cast<int>(b),
                         {Together(transfers), Together(exchanges)});
    }
  }
  return result;
}

std::vector<ModelShare> UnmeasuredShares(const ModelConfig& model, const DeviceCost& device, int degree) {
  std::vector<ModelShare> shares;
  for (const ModelShare& of_rank : EvenShares(model, degree)) {
    const ModelShare share = AtOrigin(of_rank);
    if (!CostsOf(device, model, share) && std::count(shares.begin(), shares.end(), share) == 0)
      shares.push_back(share);
  }
  return shares;
}

}  // namespace medley
