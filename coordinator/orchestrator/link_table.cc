#include "coordinator/orchestrator/link_table.h"

#include <algorithm>
#include <unordered_set>

#include "absl/strings/str_cat.h"
#include "coordinator/orchestrator/link_pairs.h"
#include "runtime/wire/message_protection_codec.h"

namespace medley {
namespace {

// What two measurements of links that are alike differ by at most; latencies also by so many seconds.
constexpr double kBandwidthSpread = 1.3, kLatencySpread = 2, kLatencyNoiseSeconds = 2e-5;
// From so many on half of them, the middle ones, have to agree: some may join a node that is not like the others.
constexpr size_t kMany = 12;
// PeerTraffic::path of ranks that share memory.
constexpr char kSharedMemory[] = "shared memory";

// Names as numbers from 0 on.
class Numbers {
 public:
  int Of(const std::string& name) {
    return numbers_.try_emplace(name, static_cast<int>(numbers_.size())).first->second;
  }
  size_t count() const { return numbers_.size(); }

 private:
  std::map<std::string, int> numbers_;
};

bool Within(double spread, double noise, double a, double b) {
  return std::max(a, b) <= spread * std::min(a, b) + noise;
}

// `links` ascend by bandwidth.
bool Agree(const std::vector<const v1::LinkProfile*>& links) {
  const size_t left_out = links.size() < kMany ? 0 : links.size() / 4;
  const std::vector<const v1::LinkProfile*> middle(links.begin() + left_out, links.end() - left_out);
  const auto [quickest, latest] = std::minmax_element(middle.begin(), middle.end(),
                                                      [](const v1::LinkProfile* a, const v1::LinkProfile* b) {
                                                        return a->latency_seconds() < b->latency_seconds();
                                                      });
  const bool one_transport = std::all_of(middle.begin(), middle.end(), [&](const v1::LinkProfile* link) {
    return link->transport() == middle.front()->transport();
  });
  return one_transport &&
         Within(kBandwidthSpread, 0, middle.back()->bytes_per_second(), middle.front()->bytes_per_second()) &&
         Within(kLatencySpread, kLatencyNoiseSeconds, (*latest)->latency_seconds(),
                (*quickest)->latency_seconds());
}

std::string DescribeStanding(const std::string& provenance, const LinkTable::Samples& samples) {
  return absl::StrCat(provenance.empty() ? "" : absl::StrCat(provenance, "; "),
                      samples.agree ? "the middle one" : "slower than three quarters, for they differ,",
                      " of ", samples.count, " links measured of many that should be alike");
}

}  // namespace

bool AreAlike(const v1::LinkProfile& a, const v1::LinkProfile& b) {
  return a.transport() == b.transport() &&
         Within(kBandwidthSpread, 0, a.bytes_per_second(), b.bytes_per_second()) &&
         Within(kLatencySpread, kLatencyNoiseSeconds, a.latency_seconds(), b.latency_seconds());
}

bool HoldsUnder(MessageProtection protection, const v1::LinkProfile& measured) {
  const MessageProtection with = DecodeMessageProtection(measured.message_protection());
  return with == protection || (with == MessageProtection::kNone && measured.transport() == kSharedMemory);
}

LinkTable::LinkTable(const std::vector<v1::LinkProfile>& measured, MessageProtection protection)
    : protection_(protection) {
  for (const v1::LinkProfile& link : measured) Add(link);
}

void LinkTable::Add(const v1::LinkProfile& measured) {
  if (measured.kind().empty() || !HoldsUnder(protection_, measured)) return;
  const auto [present, is_new] = newest_.emplace(measured.kind(), measured);
  if (!is_new && measured.measured_at_seconds() > present->second.measured_at_seconds())
    present->second = measured;
  if (!measured.link_class().empty()) kinds_of_class_[measured.link_class()].insert(measured.kind());
}

LinkTable::Samples LinkTable::SamplesOf(const std::string& link_class) const {
  const auto kinds = kinds_of_class_.find(link_class);
  if (kinds == kinds_of_class_.end()) return {};
  std::vector<const v1::LinkProfile*> links;
  for (const std::string& kind : kinds->second) links.push_back(&newest_.at(kind));
  std::stable_sort(links.begin(), links.end(), [](const v1::LinkProfile* a, const v1::LinkProfile* b) {
    return a->measured_at_seconds() > b->measured_at_seconds();
  });
  links.resize(std::min<size_t>(links.size(), kMostSamples));
  Samples samples{.count = static_cast<int>(links.size())};
  if (samples.count < kFewestSamples) return samples;
  std::stable_sort(links.begin(), links.end(), [](const v1::LinkProfile* a, const v1::LinkProfile* b) {
    return a->bytes_per_second() < b->bytes_per_second();
  });
  samples.agree = Agree(links);
  samples.stands = links[samples.agree ? (links.size() - 1) / 2 : links.size() / 4];
  return samples;
}

LinkTable::Found LinkTable::Find(const ClusterDeviceLocation& a, const ClusterDeviceLocation& b,
                                 SamplesByClass& known) const {
  const auto own = newest_.find(LinkKind(a, b));
  if (own != newest_.end()) return {&own->second, nullptr};
  const std::string link_class = LinkClass(a, b);
  const auto [entry, is_new] = known.try_emplace(link_class);
  if (is_new) entry->second = SamplesOf(link_class);
  return {entry->second.stands, &entry->second};
}

v1::LinkProfile LinkTable::WithEnds(const Found& found, const ClusterDeviceLocation& a,
                                    const ClusterDeviceLocation& b) {
  v1::LinkProfile link = *found.measured;
  if (found.samples != nullptr) {
    link.set_kind(LinkKind(a, b));
    link.set_provenance(DescribeStanding(link.provenance(), *found.samples));
  }
  const std::string first = FullName(a), second = FullName(b);
  const bool is_itself =
      (link.a() == first && link.b() == second) || (link.a() == second && link.b() == first);
  if (!is_itself) link.set_measured_between(absl::StrCat(link.a(), " - ", link.b()));
  link.set_a(first);
  link.set_b(second);
  return link;
}

std::optional<v1::LinkProfile> LinkTable::Between(const ClusterDeviceLocation& a,
                                                  const ClusterDeviceLocation& b) const {
  SamplesByClass known;
  const Found found = Find(a, b, known);
  if (found.measured == nullptr) return std::nullopt;
  return WithEnds(found, a, b);
}

void LinkTable::ForEachAmong(const std::vector<ClusterDeviceLocation>& devices,
                             const std::function<bool(const v1::LinkProfile&)>& each) const {
  SamplesByClass known;
  for (size_t second = 1; second < devices.size(); ++second) {
    for (size_t first = 0; first < second; ++first) {
      const Found found = Find(devices[first], devices[second], known);
      if (found.measured != nullptr && !each(WithEnds(found, devices[first], devices[second]))) return;
    }
  }
}

// Kinds are of nodes, and classes between machines of networks, sites, racks and kinds of devices: what makes a pair's name differs between few
// devices, and is numbered.
void LinkTable::ForEachPlaceAmong(const std::vector<ClusterDeviceLocation>& devices,
                                  const EachPlace& each) const {
  Numbers machines, nodes, ends;
  std::vector<int> machine_of, node_of, end_of;
  for (const ClusterDeviceLocation& device : devices) {
    machine_of.push_back(machines.Of(MachineOf(device)));
    node_of.push_back(nodes.Of(device.node));
    end_of.push_back(ends.Of(EndOfClass(device)));
  }
  const auto pair_of = [](int64_t a, int64_t b) { return a << 32 | b; };
  std::unordered_set<int64_t> measured;  // nodes, between which there may be kinds that are
  for (const auto& [kind, link] : newest_) {
    const int a = nodes.Of(NodeOf(link.a()));
    const int b = nodes.Of(NodeOf(link.b()));
    measured.insert(pair_of(a, b));
    measured.insert(pair_of(b, a));
  }
  SamplesByClass known;
  std::vector<std::optional<Found>> between(ends.count() * ends.count());  // by two ends
  for (int second = 1; second < static_cast<int>(devices.size()); ++second) {
    for (int first = 0; first < second; ++first) {
      const bool of_class = machine_of[first] != machine_of[second] &&
                            !measured.contains(pair_of(node_of[first], node_of[second]));
      std::optional<Found> own;
      std::optional<Found>& found = of_class ? between[end_of[first] * ends.count() + end_of[second]] : own;
      if (!found) found = Find(devices[first], devices[second], known);
      if (found->measured != nullptr && !each(first, second, *found->measured)) return;
    }
  }
}

}  // namespace medley
