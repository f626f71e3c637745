#include "coordinator/problem/changes_to_fit.h"

#include <algorithm>
#include <functional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/base/bytes.h"
#include "runtime/ir/model/recompute.h"
#include "runtime/ir/program/memory.h"

namespace medley {
namespace {

// Of so many units changes are told, for it is one paragraph.
constexpr size_t kMostUnitsTold = 3;
// With one, copies do not overlap with passes.
constexpr int kWindowsTried[] = {2, 1};

// As jobs have it.
const char* ValueOf(Recompute recompute) {
  return recompute == Recompute::kAllButAttention ? "all_but_attention" : NameOf(recompute);
}

// Of the device of the unit that has the least left.
std::string DescribeNeed(const Plan& plan, UnitId unit, const TrainingShape& shape, const PlanSite& site) {
  Bytes least_left, needed;
  std::string least;
  for (const int rank : RanksOf(plan, unit)) {
    const std::string& device = DeviceOf(plan, rank);
    const DeviceRoom& room = site.room_by_device.at(device);
    const RankMemory memory = MemoryOfRank(plan, rank, shape);
    const Bytes left = room.LeftFor(memory.multiplied, memory.micro_batch_sequences) - memory.total();
    if (!least.empty() && left >= least_left) continue;
    least_left = left;
    needed = room.memory - left;
    least = device;
  }
  return absl::StrCat(FormatBytes(needed), " on ", least);
}

// What is tried of one unit of a plan.
class Changes {
 public:
  // `lacking`: units of the plan as it is, `hosts`: what is said of hosts that lack memory for it. Keeps references.
  Changes(const Plan& plan, UnitId unit, const TrainingShape& shape, const PlanSite& site,
          const std::set<int>& lacking, const std::set<std::string>& hosts)
      : plan_(plan), unit_(unit), shape_(shape), site_(site), lacking_(lacking), hosts_(hosts) {}

  // "recompute: layers (1.0 GiB on n/gpu0)"
  std::vector<std::string> Find() {
    const Unit& unit = plan_.units[unit_];
    TryRecompute(unit);
    if (unit.devices.size() > 1 && !unit.sequence_parallel)
      TryOnUnit("sequence_parallel: true", [](Unit& changed) { changed.sequence_parallel = true; });
    TryWindows(unit);
    if (unit.activations_home == ActivationsHome::kDevice)
      TryOnUnit("activations_home: host",
                [](Unit& changed) { changed.activations_home = ActivationsHome::kHost; });
    TryMicroBatches();
    return std::move(found_);
  }

 private:
  // True: the unit fits, and nothing else is worse.
  bool Try(const std::string& text, const Plan& changed) {
    for (const PlanViolation& violation : CheckPlan(changed, shape_, site_)) {
      if (violation.kind == PlanViolation::Kind::kHostMemory && hosts_.contains(violation.detail)) continue;
      if (violation.kind != PlanViolation::Kind::kMemory || violation.unit == unit_ ||
          lacking_.count(violation.unit) == 0)
        return false;
    }
    found_.push_back(absl::StrCat(text, " (", DescribeNeed(changed, unit_, shape_, site_), ")"));
    return true;
  }

  bool TryOnUnit(const std::string& text, const std::function<void(Unit&)>& change) {
    Plan changed = plan_;
    change(changed.units[unit_]);
    return Try(text, changed);
  }

  void TryRecompute(const Unit& unit) {
    if (unit.recomputed_layers > 0 &&
        TryOnUnit("recomputed_layers: 0, which is all", [](Unit& changed) { changed.recomputed_layers = 0; }))
      return;
    for (const Recompute more : {Recompute::kAllButAttention, Recompute::kLayers}) {
      if (more <= unit.recompute) continue;
      if (TryOnUnit(absl::StrCat("recompute: ", ValueOf(more)),
                    [more](Unit& changed) { changed.recompute = more; }))
        return;
    }
  }

  void TryWindows(const Unit& unit) {
    const int now = unit.has_windows() ? unit.window_layers : LayersOf(unit, shape_.model);
    for (const int windows : kWindowsTried) {
      if (windows >= now) continue;
      if (TryOnUnit(absl::StrCat("window_layers: ", windows),
                    [windows](Unit& changed) { changed.window_layers = windows; }))
        return;
    }
  }

  // On those of its routes that have larger ones.
  void TryMicroBatches() {
    std::set<int> sizes;
    for (const Route& route : plan_.routes) {
      if (Passes(route)) sizes.insert(route.micro_batch_sequences);
    }
    for (int size = *sizes.rbegin() - 1; size > 0; --size) {
      if (std::any_of(sizes.begin(), sizes.end(),
                      [size](int larger) { return larger > size && larger % size != 0; }))
        continue;
      Plan changed = plan_;
      for (Route& route : changed.routes) {
        if (!Passes(route) || route.micro_batch_sequences <= size) continue;
        route.micro_batches *= route.micro_batch_sequences / size;
        route.micro_batch_sequences = size;
      }
      if (Try(absl::StrCat("micro_batch_sequences: ", sizes.size() > 1 ? "at most " : "", size), changed))
        return;
    }
  }

  bool Passes(const Route& route) const {
    return std::count(route.units.begin(), route.units.end(), unit_) > 0;
  }

  const Plan& plan_;
  const UnitId unit_;
  const TrainingShape& shape_;
  const PlanSite& site_;
  const std::set<int>& lacking_;
  const std::set<std::string>& hosts_;
  std::vector<std::string> found_;
};

}  // namespace

std::string DescribeChangesToFit(const Plan& plan, const TrainingShape& shape, const PlanSite& site,
                                 const std::vector<PlanViolation>& violations) {
  std::set<int> lacking;
  std::set<std::string> hosts;  // what is said of them, which is the same while they need the same
  for (const PlanViolation& violation : violations) {
    if (violation.kind == PlanViolation::Kind::kMemory) lacking.insert(violation.unit);
    if (violation.kind == PlanViolation::Kind::kHostMemory) hosts.insert(violation.detail);
  }
  std::vector<std::string> texts;
  for (const int unit : lacking) {
    if (texts.size() == kMostUnitsTold) break;
    const std::vector<std::string> found = Changes(plan, unit, shape, site, lacking, hosts).Find();
    texts.push_back(
        found.empty()
            ? absl::StrCat("units[", unit,
                           "] would fit with no single change of recompute, sequence_parallel, "
                           "window_layers, activations_home or micro_batch_sequences")
            : absl::StrCat("units[", unit, "] would fit with ", absl::StrJoin(found, ", or with ")));
  }
  return absl::StrJoin(texts, "; ");
}

}  // namespace medley
