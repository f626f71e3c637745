#include "coordinator/orchestrator/link_samples.h"

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"

namespace medley {
namespace {

// Pairs of a class to choose from, in the order in which they are chosen: all, or more than are ever measured.
constexpr size_t kMostCandidates = 2 * LinkTable::kMostSamples;
using Candidates = std::map<std::string, std::vector<DevicePair>>;  // by class

DevicePair InOrder(int a, int b) { return {std::min(a, b), std::max(a, b)}; }

// The same order each time, which has nothing to do with that of names.
template <typename T>
void Mix(std::vector<T>& values) {
  std::mt19937 random(1);
  for (size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[random() % i]);
}

// Links inside machines: each kind's first.
void AddInside(const std::vector<ClusterDeviceLocation>& devices, Candidates& candidates) {
  std::map<std::string, std::vector<int>> machines;
  for (int d = 0; d < static_cast<int>(devices.size()); ++d) machines[MachineOf(devices[d])].push_back(d);
  std::set<std::string> kinds;
  for (const auto& [machine, members] : machines) {
    for (size_t second = 1; second < members.size(); ++second) {
      for (size_t first = 0; first < second; ++first) {
        const ClusterDeviceLocation &a = devices[members[first]], &b = devices[members[second]];
        if (!kinds.insert(LinkKind(a, b)).second) continue;
        candidates[LinkClass(a, b)].push_back({members[first], members[second]});
      }
    }
  }
  for (auto& [link_class, pairs] : candidates) Mix(pairs);
}

// Pairs of two of `ends`, neighbours first: the first half of them has no end in common.
template <typename Add>
void PairWithin(const std::vector<int>& ends, const Add& add) {
  const size_t count = ends.size();
  for (size_t apart = 1; apart <= count / 2; ++apart) {
    for (const size_t parity : {0, 1}) {
      for (size_t i = parity; i < count; i += 2) {
        if (!add(ends[i], ends[(i + apart) % count])) return;
      }
    }
  }
}

template <typename Add>
void PairAcross(const std::vector<int>& many, const std::vector<int>& few, const Add& add) {
  for (size_t apart = 0; apart < few.size(); ++apart) {
    for (size_t i = 0; i < many.size(); ++i) {
      if (!add(many[i], few[(i + apart) % few.size()])) return;
    }
  }
}

// Links between machines. Kinds are of nodes and kinds of devices, so the first device of each kind on a node stands
// for the others.
void AddBetween(const std::vector<ClusterDeviceLocation>& devices, Candidates& candidates) {
  std::set<std::pair<std::string, std::string>> seen;
  std::map<std::string, std::vector<int>> ends;  // by EndOfClass
  for (int d = 0; d < static_cast<int>(devices.size()); ++d) {
    const ClusterDeviceLocation& device = devices[d];
    if (!seen.emplace(device.node, device.device.kind).second) continue;
    ends[EndOfClass(device)].push_back(d);
  }
  for (auto& [alike, members] : ends) Mix(members);
  for (auto first = ends.begin(); first != ends.end(); ++first) {
    for (auto second = first; second != ends.end(); ++second) {
      std::vector<DevicePair> pairs;
      std::set<std::pair<int, int>> taken;
      const auto add = [&](int a, int b) {
        const DevicePair pair = InOrder(a, b);
        if (MachineOf(devices[a]) != MachineOf(devices[b]) && taken.emplace(pair.first, pair.second).second)
          pairs.push_back(pair);
        return pairs.size() < kMostCandidates;
      };
      const auto& [few, many] = std::minmax(
          first->second, second->second,
          [](const std::vector<int>& a, const std::vector<int>& b) { return a.size() < b.size(); });
      if (first == second) {
        PairWithin(first->second, add);
      } else {
        PairAcross(many, few, add);
      }
      if (pairs.empty()) continue;
      std::vector<DevicePair>& of_class =
          candidates[LinkClass(devices[pairs.front().first], devices[pairs.front().second])];
      of_class.insert(of_class.end(), pairs.begin(), pairs.end());
    }
  }
}

// How many of a class with more than kMeasuredEach kinds are to be measured in all.
int WantedOf(const LinkTable::Samples& samples) {
  if (samples.agree) return samples.count;
  int wanted = LinkTable::kFewestSamples;
  while (wanted <= samples.count) wanted *= 2;
  return std::min(wanted, LinkTable::kMostSamples);
}

}  // namespace

std::vector<DevicePair> PairsToMeasure(const std::vector<ClusterDeviceLocation>& devices,
                                       const LinkTable& known) {
  Candidates candidates;
  AddInside(devices, candidates);
  AddBetween(devices, candidates);
  std::vector<DevicePair> wanted;
  for (auto& [link_class, pairs] : candidates) {
    const LinkTable::Samples samples = known.SamplesOf(link_class);
    const bool each = pairs.size() <= kMeasuredEach;
    if (each && samples.agree && samples.count >= kMeasuredEach) continue;
    int more = each ? kMeasuredEach : WantedOf(samples) - samples.count;
    for (const DevicePair& pair : pairs) {
      if (more <= 0) break;
      if (known.IsMeasured(LinkKind(devices[pair.first], devices[pair.second]))) continue;
      wanted.push_back(pair);
      --more;
    }
  }
  std::sort(wanted.begin(), wanted.end(), [](const DevicePair& a, const DevicePair& b) {
    return std::tie(a.second, a.first) < std::tie(b.second, b.first);
  });
  return wanted;
}

}  // namespace medley
