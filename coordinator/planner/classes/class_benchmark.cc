// Plans clusters of many devices by classes: how long that takes, how good the plans are against proven bounds, and
// against the plans that another planner (Sailor, Strati et al. 2025) found for its own clusters.
#include <sys/resource.h>

#include <cmath>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/planner/classes/class_planner.h"
#include "coordinator/planner/techniques/sharing.h"
#include "coordinator/predictor/alike_routes.h"
#include "coordinator/predictor/predict.h"
#include "coordinator/predictor/work_bound.h"
#include "nlohmann/json.hpp"
#include "runtime/ir/model/parameters.h"

namespace medley {
namespace {

using Json = nlohmann::json;

// Devices of plans whose prediction, of which alike routes are simulated once, is held against the simulation of all.
constexpr int kMostSimulatedWhole = 1024;

double CpuSeconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

// The most memory that this process has had.
double PeakResidentMib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;  // from KiB
}

struct Kind {
  std::string name;
  double flops = 0;  // of matmuls
  Bytes memory;
  int on_host = 8;
  int cards = 1;  // of a host
  double within_bytes_per_second = 0;
};

struct Job {
  int layers = 0, batch = 0;  // sequences
  int hidden = 4096;
  double copy_bytes_per_second = 0;  // of devices, from host memory and to it; 0: not measured
};

// A GPT, as a roofline has it, on so many devices of each kind.
PlanningProblem Synthetic(const std::vector<std::pair<Kind, int>>& kinds, const Job& job) {
  PlanningProblem problem;
  problem.shape.model = {.layers = job.layers,
                         .hidden = job.hidden,
                         .heads = job.hidden / 128,
                         .feed_forward = 4 * job.hidden,
                         .vocabulary = 50304,
                         .context = 2048};
  problem.shape.sequence = 2048;
  problem.shape.global_batch_sequences = job.batch;
  problem.micro_batch_sizes = {1, 2, 4};
  problem.constraints.saves_memory = true;
  problem.constraints.synthesised_orders = true;
  const ModelConfig& model = problem.shape.model;
  std::vector<int> ends, hosts;
  int host = 0;
  for (size_t k = 0; k < kinds.size(); ++k) {
    const auto& [kind, count] = kinds[k];
    for (int d = 0; d < count; ++d) {
      if (d % kind.on_host == 0) ++host;
      DeviceCost cost{.name = absl::StrCat(kind.name, "-", host, "/", d % kind.on_host),
                      .kind = kind.name,
                      .processor = static_cast<int>(problem.devices.size()),
                      .host = host,
                      .network_cards = kind.cards,
                      .room = {.memory = kind.memory}};
      cost.update_seconds_per_parameter = 1.5e-11;
      cost.norm_seconds_per_parameter = 5e-12;
      cost.fetch_bytes_per_second = cost.store_bytes_per_second = job.copy_bytes_per_second;
      for (int degree = 1; degree <= kind.on_host; degree *= 2) {
        std::vector<BlockTimes> times;
        for (const int size : problem.micro_batch_sizes) {
          const double tokens = static_cast<double>(problem.shape.sequence) * size;
          // Small products use the device less.
          const double rate = kind.flops * 0.55 * (tokens / degree) / (tokens / degree + 400);
          const double layer =
              tokens * (24.0 * model.hidden * model.hidden + 4.0 * model.hidden * problem.shape.sequence) /
              degree / rate;
          const double head = tokens * 2.0 * model.hidden * model.vocabulary / degree / rate;
          times.push_back({{2e-5 * size, 2e-5 * size}, {layer, 2 * layer, layer}, {head, 2 * head}});
        }
        if (degree == 1) {
          cost.times = times;
          continue;
        }
        for (const ModelShare& share : EvenShares(model, degree)) {
          const ModelShare at_origin = AtOrigin(share);
          const bool known = std::any_of(cost.shares.begin(), cost.shares.end(),
                                         [&](const ShareCost& s) { return s.share == at_origin; });
          if (known) continue;
          cost.shares.push_back({.share = at_origin,
                                 .room = cost.room,
                                 .times = times,
                                 .update_seconds_per_parameter = cost.update_seconds_per_parameter,
                                 .norm_seconds_per_parameter = cost.norm_seconds_per_parameter});
        }
      }
      problem.devices.push_back(std::move(cost));
      ends.push_back(static_cast<int>(k));
      hosts.push_back(host);
    }
  }
  problem.links = DeviceLinks(ends, hosts, static_cast<int>(kinds.size()));
  for (size_t a = 0; a < kinds.size(); ++a) {
    const LinkModel within = LinkModel::Line(5e-6, kinds[a].first.within_bytes_per_second);
    problem.links.SetWithinHosts(static_cast<int>(a), static_cast<int>(a), {within, within});
    for (size_t b = 0; b <= a; ++b) {
      const LinkModel between = LinkModel::Line(2e-5, a == b ? 25e9 : 12e9);
      problem.links.SetBetweenHosts(static_cast<int>(a), static_cast<int>(b), {between, between});
    }
  }
  return problem;
}

// Gaps go by how many devices there are, whatever their kinds: "1024_devices" of "1024_devices_4_kinds".
std::string WithoutKinds(const std::string& name) {
  const std::string devices = "_devices";
  const size_t at = name.find(devices);
  return at == std::string::npos ? name : name.substr(0, at + devices.size());
}

void Report(const std::string& name, const PlanningProblem& problem) {
  const double start = CpuSeconds();
  const absl::StatusOr<PlanByClass> plan = PlanByClasses(problem);
  std::printf("seconds_%s %.2f\n", name.c_str(), CpuSeconds() - start);
  if (!plan.ok()) {
    std::printf("error_%s %s\n", name.c_str(), plan.status().ToString().c_str());
    return;
  }
  std::printf("step_seconds_%s %.4f\n", name.c_str(), plan->step_seconds);
  std::printf("step_seconds_1f1b_%s %.4f\n", name.c_str(), plan->named_step_seconds);
  // Of the best plan under 1F1B, to which alone the bound applies.
  std::printf("gap_%s %.4f\n", WithoutKinds(name).c_str(),
              plan->named_step_seconds / plan->lower_bound_seconds - 1);
  std::printf("gap_in_any_order_%s %.4f\n", name.c_str(),
              plan->step_seconds / std::max(plan->busy_seconds, WorkSeconds(problem)) - 1);
  if (static_cast<int>(problem.devices.size()) <= kMostSimulatedWhole) {
    const auto predicted = [&](int most_simulated) {
      return PredictStepSeconds(problem, plan->plan, most_simulated).value_or(0);
    };
    const double whole = predicted(kMostSimulatedWhole);
    std::printf("by_kinds_over_whole_%s %.5f\n", name.c_str(), plan->step_seconds / whole);
    std::printf("by_stand_ins_over_whole_%s %.5f\n", name.c_str(), predicted(0) / whole);
  }
  std::printf("priced_%s %lld\n", name.c_str(), static_cast<long long>(plan->priced_shapes));
  std::printf("summary_%s %s\n", name.c_str(), plan->summary.c_str());
}

// Sailor's cluster of one file of its best plans, with its profiles of OPT-350.
class SailorCluster {
 public:
  explicit SailorCluster(const std::string& path) : file_(Json::parse(std::ifstream(path))) {
    const Json& inputs = file_.at("inputs");
    const Json& training = inputs.at("training_config");
    problem_.shape.model = {.layers = training.at("num_layers"),
                            .hidden = training.at("hidden_size"),
                            .heads = training.at("heads"),
                            .feed_forward = 4 * training.at("hidden_size").get<int>(),
                            .vocabulary = training.at("vocab_size"),
                            .context = training.at("sequence_length")};
    problem_.shape.sequence = training.at("sequence_length");
    problem_.shape.global_batch_sequences = training.at("global_batch_size");
    problem_.micro_batch_sizes = {1, 2, 4, 8};
    problem_.constraints.saves_memory = true;
    problem_.constraints.synthesised_orders = true;
    AddDevices(inputs);
    AddLinks(inputs);
    TakeExchangesOut();
  }

  const PlanningProblem& problem() const { return problem_; }

  // The plan that Sailor chose, its micro-batches as even as they go.
  Plan SailorsPlan() const {
    const Json& plan = file_.at("plan");
    const Json& stages = plan.at("pipelines").at(0).at("stages");
    const int replicas = static_cast<int>(stages.at(0).at("replicas").size()),
              size = plan.at("micro_batch_size");
    std::map<std::string, std::vector<int>> free;
    for (size_t d = 0; d < problem_.devices.size(); ++d)
      free[problem_.devices[d].kind].push_back(static_cast<int>(d));
    // The widest first, so that each lies in one host.
    std::vector<std::vector<std::vector<int>>> taken(stages.size(), std::vector<std::vector<int>>(replicas));
    for (const int degree : {8, 4, 2, 1}) {
      for (size_t s = 0; s < stages.size(); ++s) {
        for (int j = 0; j < replicas; ++j) {
          const Json& replica = stages.at(s).at("replicas").at(j);
          if (replica.at("tp").get<int>() != degree) continue;
          std::vector<int>& left = free[replica.at("gpu")];
          taken[s][j].assign(left.begin(), left.begin() + degree);
          left.erase(left.begin(), left.begin() + degree);
        }
      }
    }
    Plan result;
    const int micro_batches = problem_.shape.global_batch_sequences / size;
    for (int j = 0; j < replicas; ++j) {
      Route route{{}, micro_batches / replicas + (j < micro_batches % replicas ? 1 : 0), size};
      for (size_t s = 0; s < stages.size(); ++s) {
        const Json& layers = stages.at(s).at("layers");
        Unit unit{
            .chunks = {{BlockId(layers.at("first").get<int>()), BlockId(layers.at("last").get<int>() + 1)}}};
        for (const int d : taken[s][j]) unit.devices.push_back(problem_.devices[d].name);
        route.units.push_back(static_cast<int>(result.units.size()));
        result.units.push_back(std::move(unit));
      }
      result.routes.push_back(std::move(route));
    }
    return result;
  }

 private:
  static BlockTimes TimesOf(const Json& layers, int count) {
    const auto pass = [](const Json& layer) {
      PassTimes times{layer.at(0), layer.at(1)};
      times.weight_gradient_seconds = times.backward_seconds / 2;
      return times;
    };
    return {pass(layers.at("0")), pass(layers.at("1")), pass(layers.at(std::to_string(count + 1)))};
  }

  void AddDevices(const Json& inputs) {
    const ModelConfig& model = problem_.shape.model;
    for (const auto& [name, gpus] : inputs.at("gpus").items()) {
      const std::string type = gpus.at("type");
      kinds_.push_back(type);
      DeviceCost cost{.kind = type,
                      .room = {.memory = {inputs.at("gpu_memory_bytes").at(type).get<int64_t>()}}};
      const Json& profile = inputs.at("profiles_s").at(type);
      const Json& first = profile.at("1").at("1").at("1");
      const double layer_parameters =
          static_cast<double>(SegmentElements(model, SegmentOfBlock(BlockOfLayer(0))));
      cost.update_seconds_per_parameter = first.at(2).get<double>() / layer_parameters;
      for (const int degree : {1, 2, 4}) {
        std::vector<BlockTimes> times;
        for (const int size : problem_.micro_batch_sizes) {
          const Json& of_size = profile.at(std::to_string(size));
          // What was not measured is what half the micro-batch takes twice.
          BlockTimes measured;
          if (of_size.contains(std::to_string(degree))) {
            measured = TimesOf(of_size.at(std::to_string(degree)), model.layers);
          } else {
            measured = times.back();
            for (PassTimes* pass : {&measured.embedding, &measured.layer, &measured.head}) {
              pass->forward_seconds *= 2;
              pass->backward_seconds *= 2;
              pass->weight_gradient_seconds *= 2;
            }
          }
          times.push_back(measured);
        }
        if (degree == 1) {
          cost.times = times;
          continue;
        }
        for (const ModelShare& share : EvenShares(model, degree)) {
          cost.shares.push_back({.share = AtOrigin(share),
                                 .room = cost.room,
                                 .times = times,
                                 .update_seconds_per_parameter = cost.update_seconds_per_parameter,
                                 .norm_seconds_per_parameter = 0});
        }
      }
      const int on_host = gpus.at("gpus_per_node");
      for (int d = 0; d < gpus.at("count").get<int>(); ++d) {
        if (d % on_host == 0) ++hosts_;
        cost.name = absl::StrCat(type, "-", hosts_, "/", d % on_host);
        cost.processor = static_cast<int>(problem_.devices.size());
        cost.host = hosts_;
        problem_.devices.push_back(cost);
        end_of_device_.push_back(static_cast<int>(kinds_.size()) - 1);
        host_of_device_.push_back(hosts_);
      }
    }
  }

  // GB/s of a message of S bytes is a quadratic of log2(S / 1 MB), at most the highest.
  static LinkModel LinkOf(const Json& curve) {
    const Json& c = curve.at(0);
    const double highest = curve.at(1);
    // It was measured from 1 MB on; what is smaller goes as fast, after a latency of its own.
    LinkModel model{{{0, 3e-5}}};
    for (double exponent = 0; exponent <= 10; ++exponent) {
      const double bytes = 1e6 * std::pow(2.0, exponent);
      const double rate = std::min(
          highest, 1e9 * std::max(0.05, c.at(0).get<double>() * exponent * exponent +
                                            c.at(1).get<double>() * exponent + c.at(2).get<double>()));
      const double seconds = bytes / rate;
      model.points.push_back(
          {bytes, model.points.empty() ? seconds : std::max(seconds, model.points.back().seconds)});
    }
    return model;
  }

  void AddLinks(const Json& inputs) {
    problem_.links = DeviceLinks(end_of_device_, host_of_device_, static_cast<int>(kinds_.size()));
    const Json& coefficients = inputs.at("network").at("coefficients");
    const std::string zone = coefficients.begin().key();
    const Json& within = inputs.at("intra_node").at("coefficients");
    for (size_t a = 0; a < kinds_.size(); ++a) {
      const LinkModel inside = LinkOf(within.at(kinds_[a]).at("4"));
      problem_.links.SetWithinHosts(static_cast<int>(a), static_cast<int>(a), {inside, inside});
      for (size_t b = 0; b <= a; ++b) {
        const LinkModel link =
            LinkOf(coefficients.at(zone).at(kinds_[a]).at("1").at(zone).at(kinds_[b]).at("1"));
        problem_.links.SetBetweenHosts(static_cast<int>(a), static_cast<int>(b), {link, link});
      }
    }
  }

  // Sailor's times of shares have what the ranks sum within passes in them, which predictions add.
  void TakeExchangesOut() {
    const ModelConfig& model = problem_.shape.model;
    std::map<std::string, std::vector<ShareCost>> done;
    for (DeviceCost& device : problem_.devices) {
      const auto known = done.find(device.kind);
      if (known != done.end()) {
        device.shares = known->second;
        continue;
      }
      for (ShareCost& share : device.shares) {
        const std::vector<BlockTimes> exchanges =
            ExchangesOf(device.host, model.heads / QueryHeadsOf(model, share.share).size());
        for (size_t size = 0; size < share.times.size(); ++size) {
          for (const auto block : {&BlockTimes::embedding, &BlockTimes::layer, &BlockTimes::head}) {
            PassTimes& times = share.times[size].*block;
            const PassTimes& exchange = exchanges[size].*block;
            times.forward_seconds =
                std::max(0.2 * times.forward_seconds, times.forward_seconds - exchange.forward_seconds);
            times.backward_seconds =
                std::max(0.2 * times.backward_seconds, times.backward_seconds - exchange.backward_seconds);
            times.weight_gradient_seconds = times.backward_seconds / 2;
          }
        }
      }
      done[device.kind] = device.shares;
    }
  }

  // What ranks that compute nothing take for their passes, on the first devices of a host, by size.
  std::vector<BlockTimes> ExchangesOf(int host, int degree) const {
    std::vector<int> group;
    for (size_t d = 0; d < problem_.devices.size() && static_cast<int>(group.size()) < degree; ++d) {
      if (problem_.devices[d].host == host) group.push_back(static_cast<int>(d));
    }
    PlanningProblem alone = OnDevices(problem_, group);
    SharedUnit unit{.shares = EvenShares(problem_.shape.model, degree)};
    for (int member = 0; member < degree; ++member) {
      unit.devices.push_back(member);
      for (ShareCost& share : alone.devices[member].shares) share.times.assign(share.times.size(), {});
    }
    return CostOfUnit(alone, unit).times;
  }

  const Json file_;
  PlanningProblem problem_;
  std::vector<std::string> kinds_;
  std::vector<int> end_of_device_, host_of_device_;
  int hosts_ = -1;
};

// The plan as Sailor's own simulator reads it: routes that are alike are one pipeline with so many replicas. Its layers
// are our blocks.
std::string AsSailorsJson(const PlanningProblem& problem, const Plan& plan) {
  std::map<std::string, std::string> kind_of_device;
  for (const DeviceCost& device : problem.devices) kind_of_device[device.name] = device.kind;
  std::map<std::string, std::pair<Json, int>> pipelines;  // by themselves: how many
  for (const Route& route : plan.routes) {
    Json stages = Json::array();
    for (const UnitId u : route.units) {
      const Unit& unit = plan.units[u];
      const Json replica = {{"gpu", kind_of_device[unit.devices.front()]}, {"tp", unit.devices.size()}};
      stages.push_back({{"layers", unit.chunks[0].size()}, {"replicas", {replica}}});
    }
    const Json pipeline = {{"stages", stages},
                           {"num_micro_batches", route.micro_batches},
                           {"micro_batch_size", route.micro_batch_sequences}};
    auto& [kept, count] = pipelines[pipeline.dump()];
    kept = pipeline;
    ++count;
  }
  Json all = Json::array();
  for (auto& [text, pipeline] : pipelines) {
    for (Json& stage : pipeline.first["stages"]) stage["replicas"][0]["count"] = pipeline.second;
    all.push_back(pipeline.first);
  }
  return Json{{"micro_batch_size", plan.routes[0].micro_batch_sequences}, {"pipelines", all}}.dump();
}

void ReportSailor(const std::string& data, const std::string& name) {
  const SailorCluster cluster(absl::StrCat(data, "/profiles/sailor/best_plans/", name, ".json"));
  const absl::StatusOr<double> theirs = AlikeRoutePredictor(cluster.problem()).Predict(cluster.SailorsPlan());
  const double start = CpuSeconds();
  const absl::StatusOr<PlanByClass> ours = PlanByClasses(cluster.problem());
  std::printf("seconds_sailor_%s %.2f\n", name.c_str(), CpuSeconds() - start);
  if (!ours.ok() || !theirs.ok()) {
    std::printf("error_sailor_%s %s %s\n", name.c_str(), ours.status().ToString().c_str(),
                theirs.status().ToString().c_str());
    return;
  }
  std::printf("step_seconds_sailor_%s ours %.4f theirs %.4f\n", name.c_str(), ours->step_seconds, *theirs);
  std::printf("step_seconds_1f1b_sailor_%s %.4f\n", name.c_str(), ours->named_step_seconds);
  std::printf("vs_sailor_%s %.4f\n", name.c_str(), *theirs / ours->step_seconds);
  std::printf("gap_sailor_%s %.4f\n", name.c_str(), ours->named_step_seconds / ours->lower_bound_seconds - 1);
  std::printf("summary_sailor_%s %s\n", name.c_str(), ours->summary.c_str());
  const absl::StatusOr<double> whole = PredictStepSeconds(cluster.problem(), ours->plan, kMostSimulatedWhole);
  if (whole.ok())
    std::printf("by_kinds_over_whole_sailor_%s %.5f\n", name.c_str(), ours->step_seconds / *whole);
  // Its own simulator knows no order but 1F1B, which it takes any other for, and no routes that share units.
  Plan for_theirs = ours->plan;
  if (!PassesEachUnitOnce(for_theirs)) {
    PlanningProblem named = cluster.problem();
    named.constraints.synthesised_orders = false;
    const absl::StatusOr<PlanByClass> best = PlanByClasses(named);
    if (!best.ok()) return;
    for_theirs = best->plan;
    std::printf("summary_1f1b_sailor_%s %s\n", name.c_str(), best->summary.c_str());
  }
  std::printf("plan_sailor_%s %s\n", name.c_str(), AsSailorsJson(cluster.problem(), for_theirs).c_str());
}

}  // namespace
}  // namespace medley

int main(int count, char** arguments) {
  using medley::GiB;
  const std::string only = count > 2 ? arguments[2] : "";
  const medley::Kind h100{"H100", 990e12, GiB(80), 8, 8, 450e9}, a100{"A100", 312e12, GiB(80), 8, 8, 300e9},
      a40{"A40", 150e12, GiB(48), 8, 2, 28e9}, v100{"V100", 125e12, GiB(32), 8, 4, 150e9},
      l4{"L4", 121e12, GiB(24), 8, 2, 16e9}, a10{"A10", 125e12, GiB(24), 4, 1, 16e9};
  const auto report = [&](const std::string& name, const std::vector<std::pair<medley::Kind, int>>& kinds,
                          const medley::Job& job) {
    if (only.empty() || only == name) medley::Report(name, medley::Synthetic(kinds, job));
  };
  report("64_devices", {{h100, 16}, {a100, 24}, {v100, 24}}, {32, 1024});
  report("128_a100_v100", {{a100, 32}, {v100, 96}}, {32, 1024});
  report("1024_devices_4_kinds", {{h100, 128}, {a100, 256}, {a40, 256}, {v100, 384}}, {48, 4096});
  report("10000_devices_6_kinds",
         {{h100, 1024}, {a100, 2048}, {a40, 2048}, {v100, 2048}, {l4, 1832}, {a10, 1000}}, {48, 16384});
  // Models with little room for what forwards keep.
  report("48_tight_65b", {{a100, 32}, {a40, 16}}, {80, 256, 8192, 2e10});
  report("64_tight_30b", {{a40, 32}, {l4, 32}}, {48, 256, 7168, 2e10});
  if (count > 1) {
    for (const char* name : {"32_96", "80_240", "128_384"})
      if (only.empty() || only == name) medley::ReportSailor(arguments[1], name);
  }
  std::printf("planner_resident_mib %.0f\n", medley::PeakResidentMib());
  return 0;
}
