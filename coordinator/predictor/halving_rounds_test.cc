#include "coordinator/predictor/halving_rounds.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "absl/strings/str_cat.h"
#include "catch2/catch.hpp"
#include "coordinator/predictor/whole_collective.h"
#include "runtime/ir/collective/halving_doubling_schedule.h"

namespace medley {
namespace {

LinkCost Link(double latency_seconds, double bytes_per_second) {
  const LinkModel line = LinkModel::Line(latency_seconds, bytes_per_second);
  return {line, line};
}

// Devices on hosts that have unlike numbers of them, hosts of a kind side by side, at one or two sites. Of some or all hosts nobody knows the cards.
struct UnlikeHosts {
  explicit UnlikeHosts(uint64_t seed) {
    std::mt19937_64 random(seed);
    const auto pick = [&](const std::vector<int>& of) { return of[random() % of.size()]; };
    const int kinds = pick({1, 2, 3}), sites = pick({1, 1, 2});
    const bool has_cards = random() % 4 != 0;
    at_once = has_cards ? pick({1, 1, 2, 4}) : 1;
    std::vector<int> ends;
    int host = 0;
    for (int site = 0; site < sites; ++site) {
      for (int kind = 0; kind < kinds; ++kind) {
        const int on_host = pick({1, 2, 4, 8}), cards = has_cards ? pick({0, 1, 2, 4, 8}) : 0;
        for (int of_kind = pick({1, 2, 3, 5}); of_kind > 0; --of_kind, ++host) {
          for (int member = 0; member < on_host; ++member) {
            const int d = static_cast<int>(devices.size());
            problem.devices.push_back({.name = absl::StrCat("d", d),
                                       .processor = d,
                                       .host = host,
                                       .network_cards = cards,
                                       .site = has_cards ? site : 0});
            ends.push_back(site * kinds + kind);
            hosts.push_back(host);
            devices.push_back(d);
          }
        }
      }
    }
    problem.links = DeviceLinks(ends, hosts, sites * kinds);
    for (int a = 0; a < sites * kinds; ++a) {
      problem.links.SetWithinHosts(a, a, Link(5e-6, 1e10 * pick({3, 15, 30})));
      for (int b = 0; b <= a; ++b) {
        const bool is_near = a / kinds == b / kinds;
        problem.links.SetBetweenHosts(a, b, is_near ? Link(2e-5, a == b ? 2.5e10 : 1.2e10) : Link(1e-3, 5e9));
      }
    }
    whole = WholeCollective(problem, devices, at_once);
  }

  // Message by message.
  double Seconds(int64_t elements, SumPart part) {
    whole.elements = elements;
    if (part == SumPart::kScattered)
      return CollectiveSeconds(whole, HalvingReduceScatter(whole.members, elements, {}));
    if (part == SumPart::kGathered)
      return CollectiveSeconds(whole, DoublingAllGather(whole.members, elements, {}));
    return CollectiveSeconds(whole, HalvingDoublingSchedule(whole.members, elements, {}));
  }

  PlanningProblem problem;
  CollectiveProblem whole;
  std::vector<int> devices, hosts;
  int at_once = 1;
};

TEST_CASE(
    "halving and doubling told round by round takes nearly what its messages take, however many members "
    "hosts have") {
  double off = 0;
  int told = 0;
  for (uint64_t seed = 0; seed < 80; ++seed) {
    UnlikeHosts many(seed);
    if (many.devices.size() < 16) continue;  // of fewer each message is looked at
    const HalvingRounds rounds(many.problem, many.devices, BoundariesOf(many.whole), many.at_once);
    for (const int64_t elements : {int64_t{1} << 12, int64_t{1} << 20, int64_t{1} << 26}) {
      for (const SumPart part : {SumPart::kWhole, SumPart::kScattered, SumPart::kGathered}) {
        CAPTURE(seed, many.devices.size(), elements, static_cast<int>(part));
        const double error = std::log(rounds.Seconds(elements, part) / many.Seconds(elements, part));
        // Of small messages latencies count, and whoever crosses between sites in one round need not do so in the next.
        CHECK(std::abs(error) < (elements < 1 << 20 ? 1 : 0.6));
        off += std::abs(error);
        ++told;
      }
    }
  }
  CHECK(told > 300);
  CHECK(off / told < 0.12);
}

}  // namespace
}  // namespace medley
