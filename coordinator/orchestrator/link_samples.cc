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

// Pairs of two of `ends`, each once, neighbours first: the first half of them has no end in common.
template <typename End, typename Add>
void PairWithin(std::vector<End>& ends, const Add& add) {
  const size_t count = ends.size();
  for (size_t apart = 1; apart <= count / 2; ++apart) {
    const size_t firsts = 2 * apart == count ? apart : count;  // halfway round each pair would come twice
    for (const size_t parity : {0, 1}) {
      for (size_t i = parity; i < firsts; i += 2) {
        if (!add(ends[i], ends[(i + apart) % count])) return;
      }
    }
  }
}

// Pairs of one of `a` and one of `b`, each once.
template <typename End, typename Add>
void PairAcross(std::vector<End>& a, std::vector<End>& b, const Add& add) {
  auto &many = a.size() < b.size() ? b : a, &few = a.size() < b.size() ? a : b;
  for (size_t apart = 0; apart < few.size(); ++apart) {
    for (size_t i = 0; i < many.size(); ++i) {
      if (!add(many[i], few[(i + apart) % few.size()])) return;
    }
  }
}

// Devices whose links are of the same classes but for their racks.
struct AlikeEnds {
  std::vector<std::vector<int>> racks;  // the members of each, or of none that is named, in mixed order
  std::string site;
  std::map<std::string, size_t> rack_by_name;
};

// By EndBesidesRack. Kinds are of nodes and kinds of devices, so the first device of each kind on a node stands for the
// others.
std::map<std::string, AlikeEnds> EndsOf(const std::vector<ClusterDeviceLocation>& devices) {
  std::set<std::pair<std::string, std::string>> seen;
  std::map<std::string, std::map<std::string, std::vector<int>>> members;  // by end, and rack
  for (int d = 0; d < static_cast<int>(devices.size()); ++d) {
    const ClusterDeviceLocation& device = devices[d];
    if (!seen.emplace(device.node, device.device.kind).second) continue;
    members[EndBesidesRack(device)][device.rack].push_back(d);
  }
  std::map<std::string, AlikeEnds> ends;
  for (auto& [alike, racks] : members) {
    AlikeEnds& of = ends[alike];
    of.site = devices[racks.begin()->second.front()].site;
    std::vector<std::string> names;
    for (const auto& [name, in_rack] : racks) names.push_back(name);
    Mix(names);
    for (const std::string& name : names) {
      of.rack_by_name.emplace(name, of.racks.size());
      Mix(of.racks.emplace_back(std::move(racks.at(name))));
    }
  }
  return ends;
}

// Links between machines. Of a class those of each two racks take turns, as far as candidates are wanted.
class BetweenMachines {
 public:
  BetweenMachines(const std::vector<ClusterDeviceLocation>& devices, Candidates& candidates)
      : devices_(devices), candidates_(candidates), ends_(EndsOf(devices)) {}

  void Add() {
    for (auto first = ends_.begin(); first != ends_.end(); ++first) {
      for (auto second = first; second != ends_.end(); ++second) {
        AlikeEnds &a = first->second, &b = second->second;
        if (a.site == b.site) PairInside(a, b);
        PairRacks(a, b);
        for (const auto& [link_class, of_racks] : pairs_of_racks_)
          TakeTurns(of_racks, candidates_[link_class]);
        pairs_of_racks_.clear();
      }
    }
  }

 private:
  using Pairs = std::vector<DevicePair>;

  // Each rack that both have.
  void PairInside(AlikeEnds& a, AlikeEnds& b) {
    for (const auto& [name, number] : a.rack_by_name) {
      const auto other = b.rack_by_name.find(name);
      if (other != b.rack_by_name.end()) AddRacks(a.racks[number], b.racks[other->second]);
    }
  }

  // Any two racks, as many as are wanted.
  void PairRacks(AlikeEnds& a, AlikeEnds& b) {
    size_t found = 0;
    const auto add = [&](std::vector<int>& of_a, std::vector<int>& of_b) {
      const ClusterDeviceLocation &one = devices_[of_a.front()], &other = devices_[of_b.front()];
      if (one.site != other.site || one.rack != other.rack) found += AddRacks(of_a, of_b) ? 1 : 0;
      return found < kMostCandidates;
    };
    if (&a == &b) {
      PairWithin(a.racks, add);
    } else {
      PairAcross(a.racks, b.racks, add);
    }
  }

  // Whether there are any.
  bool AddRacks(std::vector<int>& a, std::vector<int>& b) {
    Pairs pairs;
    const auto add = [&](int one, int other) {
      if (MachineOf(devices_[one]) != MachineOf(devices_[other])) pairs.push_back(InOrder(one, other));
      return pairs.size() < kMostCandidates;
    };
    if (&a == &b) {
      PairWithin(a, add);
    } else {
      PairAcross(a, b, add);
      // The next two racks begin with other nodes.
      for (std::vector<int>* rack : {&a, &b}) std::rotate(rack->begin(), rack->begin() + 1, rack->end());
    }
    if (pairs.empty()) return false;
    const DevicePair& first = pairs.front();
    pairs_of_racks_[LinkClass(devices_[first.first], devices_[first.second])].push_back(std::move(pairs));
    return true;
  }

  static void TakeTurns(const std::vector<Pairs>& of_racks, Pairs& of_class) {
    for (size_t turn = 0; turn < kMostCandidates; ++turn) {
      for (const Pairs& pairs : of_racks) {
        if (of_class.size() == kMostCandidates) return;
        if (turn < pairs.size()) of_class.push_back(pairs[turn]);
      }
    }
  }

  const std::vector<ClusterDeviceLocation>& devices_;
  Candidates& candidates_;
  std::map<std::string, AlikeEnds> ends_;
  std::map<std::string, std::vector<Pairs>> pairs_of_racks_;  // by class
};

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
  BetweenMachines(devices, candidates).Add();
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
