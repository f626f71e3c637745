#include "coordinator/planner/classes/many_devices.h"

#include <algorithm>
#include <random>

#include "absl/strings/str_cat.h"
#include "runtime/ir/model/model_share.h"
#include "runtime/ir/model/parameters.h"

namespace medley {

PlanningProblem ManyDevices(uint64_t seed, int devices) {
  std::mt19937_64 random(seed);
  const auto real = [&](double low, double high) {
    return low + (high - low) * static_cast<double>(random() >> 11) / static_cast<double>(uint64_t{1} << 53);
  };
  const auto integer = [&](int low, int high) { return low + static_cast<int>(random() % (high - low + 1)); };
  PlanningProblem problem;
  problem.shape.model = {.layers = integer(2, 8),
                         .hidden = 64,
                         .heads = 4,
                         .feed_forward = 256,
                         .vocabulary = 512,
                         .context = 32};
  problem.shape.sequence = 32;
  problem.shape.global_batch_sequences = 4 * integer(2 * devices / 4, 2 * devices);
  problem.micro_batch_sizes = {1, 2, 4};
  problem.constraints.saves_memory = integer(0, 1) == 1;
  const int kinds = integer(2, 3);
  std::vector<int> ends, hosts;
  int host = 0;
  for (int kind = 0; kind < kinds; ++kind) {
    const int on_host = integer(0, 1) == 0 ? 2 : 4;
    const double layer = real(0.5, 4), head = real(0.2, 2);
    const Bytes memory = integer(0, 2) == 0 ? KiB(integer(4000, 20000)) : GiB(1);
    const int count = kind + 1 == kinds ? devices - static_cast<int>(ends.size()) : devices / kinds;
    for (int d = 0; d < count; ++d) {
      if (d % on_host == 0) ++host;
      DeviceCost cost{.name = absl::StrCat("k", kind, "h", host, "/", d % on_host),
                      .kind = absl::StrCat("kind ", kind),
                      .processor = static_cast<int>(problem.devices.size()),
                      .host = host,
                      .room = {.memory = memory}};
      cost.update_seconds_per_parameter = 1e-7;
      const auto times = [&](double part) {
        std::vector<BlockTimes> all;
        for (const int size : problem.micro_batch_sizes) {
          const double effort = part * (size + 0.3);
          all.push_back({{0.01 * effort, 0.01 * effort},
                         {layer * effort, 2 * layer * effort, layer * effort},
                         {head * effort, 2 * head * effort}});
        }
        return all;
      };
      cost.times = times(1);
      for (const int degree : {2, 4}) {
        if (degree > on_host) continue;
        cost.shares.push_back({.share = AtOrigin(EvenShares(problem.shape.model, degree)[0]),
                               .room = cost.room,
                               .times = times(1.1 / degree),
                               .update_seconds_per_parameter = 1e-7});
      }
      problem.devices.push_back(std::move(cost));
      ends.push_back(kind);
      hosts.push_back(host);
    }
  }
  problem.links = DeviceLinks(ends, hosts, kinds);
  for (int a = 0; a < kinds; ++a) {
    const LinkModel within = LinkModel::Line(1e-3, 4e6);
    problem.links.SetWithinHosts(a, a, {within, within});
    for (int b = 0; b <= a; ++b) {
      const LinkModel between = LinkModel::Line(5e-3, real(2e5, 2e6));
      problem.links.SetBetweenHosts(a, b, {between, between});
    }
  }
  if (integer(0, 1) == 1) {
    std::vector<int> cards;
    for (int kind = 0; kind < kinds; ++kind) cards.push_back(integer(1, 4));
    for (size_t d = 0; d < problem.devices.size(); ++d) problem.devices[d].network_cards = cards[ends[d]];
  }
  return problem;
}

PlanningProblem Alike(int devices, int layers, int batch) {
  PlanningProblem problem = ManyDevices(1, devices);
  problem.shape.model.layers = layers;
  problem.shape.global_batch_sequences = batch;
  problem.micro_batch_sizes = {1};
  problem.constraints.saves_memory = false;
  std::vector<int> ends(devices, 0), hosts;
  for (int d = 0; d < devices; ++d) {
    DeviceCost& device = problem.devices[d];
    device.kind = "alike";
    device.host = d;
    device.room.memory = GiB(1);
    device.shares.clear();
    device.times = {{{}, {1, 2, 1}, {}}};
    device.update_seconds_per_parameter = 0;
    device.network_cards = 0;
    hosts.push_back(d);
  }
  problem.links = DeviceLinks(ends, hosts, 1);
  const LinkModel link = LinkModel::Line(0, 1e15);
  problem.links.SetBetweenHosts(0, 0, {link, link});
  return problem;
}

PlanningProblem ManyCardsAndOne(int on_host, int batch) {
  PlanningProblem problem = Alike(24, 8, batch);
  std::vector<int> ends, hosts;
  for (int d = 0; d < 24; ++d) {
    DeviceCost& device = problem.devices[d];
    device.kind = d < 16 ? "many cards" : "one card";
    device.host = d / on_host;
    device.network_cards = d < 16 ? on_host : 1;
    ends.push_back(d < 16 ? 0 : 1);
    hosts.push_back(device.host);
  }
  const auto layer_elements =
      static_cast<double>(SegmentElements(problem.shape.model, SegmentOfBlock(BlockOfLayer(0))));
  problem.links = DeviceLinks(ends, hosts, 2);
  const LinkModel within = LinkModel::Line(0, 1e15), between = LinkModel::Line(0, layer_elements);
  for (int a = 0; a < 2; ++a) {
    problem.links.SetWithinHosts(a, a, {within, within});
    for (int b = 0; b <= a; ++b) problem.links.SetBetweenHosts(a, b, {between, between});
  }
  return problem;
}

PlanningProblem HostsOfTwo(int devices, int layers) {
  PlanningProblem problem;
  problem.shape.model = {
      .layers = layers, .hidden = 64, .heads = 4, .feed_forward = 256, .vocabulary = 64, .context = 16};
  problem.shape.sequence = 16;
  problem.shape.global_batch_sequences = 4096;
  problem.micro_batch_sizes = {1};
  std::vector<int> ends(devices, 0), hosts;
  for (int d = 0; d < devices; ++d) {
    DeviceCost& device = problem.devices.emplace_back();
    device.name = absl::StrCat("h", d / 2, "/", d % 2);
    device.kind = "alike";
    device.processor = d;
    device.host = d / 2;
    device.times = {{{}, {1, 2, 1}, {}}};
    hosts.push_back(d / 2);
  }
  problem.links = DeviceLinks(ends, hosts, 1);
  return problem;
}

}  // namespace medley
