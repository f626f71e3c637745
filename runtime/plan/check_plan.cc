#include "runtime/plan/check_plan.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/program/memory.h"

namespace medley {
namespace {

using Kind = PlanViolation::Kind;

class Checker {
 public:
  // Without a site, what depends on one is not looked at.
  Checker(const Plan& plan, const TrainingShape& shape, const PlanSite* site)
      : plan_(plan), shape_(shape), site_(site) {}

  std::vector<PlanViolation> Run() {
    if (plan_.units.empty()) Convict(Kind::kEmpty, "units: there are none; a plan needs at least one");
    if (plan_.routes.empty()) Convict(Kind::kEmpty, "routes: there are none; a plan needs at least one");
    CheckDevices();
    CheckUnitUse();
    for (size_t r = 0; r < plan_.routes.size(); ++r) CheckBlocks(r);
    CheckBatch();
    // A program can be compiled only for a plan that is otherwise in order.
    if (violations_.empty() && site_ != nullptr) CheckMemory();
    return std::move(violations_);
  }

 private:
  void Convict(Kind kind, std::string detail) { violations_.push_back({kind, std::move(detail)}); }

  bool IsUnit(int unit) const { return unit >= 0 && unit < static_cast<int>(plan_.units.size()); }

  void CheckDevices() {
    std::map<std::string, size_t> unit_of_device;
    for (size_t u = 0; u < plan_.units.size(); ++u) {
      const std::string& device = plan_.units[u].device;
      if (site_ != nullptr && !site_->memory_by_device.count(device)) {
        Convict(Kind::kUnknownDevice, absl::StrCat("units[", u, "].device: \"", device, "\" is not in the cluster"));
      }
      const auto [first, inserted] = unit_of_device.emplace(device, u);
      if (inserted) continue;
      Convict(Kind::kDeviceTwice, absl::StrCat("units[", u, "].device: \"", device, "\" is already units[",
                                               first->second, "]; a device holds one unit at most"));
    }
  }

  void CheckUnitUse() {
    std::vector<int> uses(plan_.units.size(), 0);
    for (size_t r = 0; r < plan_.routes.size(); ++r) {
      for (const int u : plan_.routes[r].units) {
        if (IsUnit(u)) {
          ++uses[u];
        } else {
          Convict(Kind::kUnitUse, absl::StrCat("routes[", r, "].units: ", u, " is not a unit; allowed are 0 to ",
                                               static_cast<int>(plan_.units.size()) - 1));
        }
      }
    }
    for (size_t u = 0; u < uses.size(); ++u) {
      if (uses[u] == 1) continue;
      Convict(Kind::kUnitUse, absl::StrCat("units[", u, "]: visited ", uses[u], " times by the routes; must be once"));
    }
  }

  void CheckBlocks(size_t r) {
    const int blocks = shape_.model.blocks();
    int covered = 0;
    for (const int u : plan_.routes[r].units) {
      if (!IsUnit(u)) return;
      const BlockRange& range = plan_.units[u].blocks;
      if (range.first != covered || range.end <= range.first || range.end > blocks) {
        Convict(Kind::kBlocks, absl::StrCat("routes[", r, "]: unit ", u, " holds blocks [", range.first, ", ",
                                            range.end, "); must begin at ", covered, " and end after it, at most at ",
                                            blocks));
        return;
      }
      covered = range.end;
    }
    if (covered == blocks) return;
    Convict(Kind::kBlocks,
            absl::StrCat("routes[", r, "]: covers blocks [0, ", covered, "); must cover [0, ", blocks, ")"));
  }

  void CheckBatch() {
    const int64_t batch = shape_.global_batch_sequences;
    int64_t sequences = 0;
    std::vector<std::string> sums;
    for (size_t r = 0; r < plan_.routes.size(); ++r) {
      const int64_t count = plan_.routes[r].micro_batches, size = plan_.routes[r].micro_batch_sequences;
      sequences += count * size;
      sums.push_back(absl::StrCat(count, " x ", size));
      if (size < 1) {
        Convict(Kind::kMicroBatch, absl::StrCat("routes[", r, "].micro_batch_sequences: ", size, "; must be at least 1"));
      }
      if (count < 1) {
        Convict(Kind::kBatchSum, absl::StrCat("routes[", r, "].micro_batches: ", count, "; must be at least 1"));
      }
    }
    if (sequences == batch) return;
    Convict(Kind::kBatchSum, absl::StrCat("routes: take ", absl::StrJoin(sums, " + "), " = ", sequences,
                                          " sequences (micro_batches x micro_batch_sequences); must be the global batch of ", batch));
  }

  void CheckMemory() {
    for (int u = 0; u < static_cast<int>(plan_.units.size()); ++u) {
      const Unit& unit = plan_.units[u];
      const UnitMemory memory = MemoryOfUnit(plan_, u, shape_);
      const auto copies = site_->copy_bytes_per_parameter_by_device.find(unit.device);
      const double copy_bytes = copies == site_->copy_bytes_per_parameter_by_device.end() ? 0 : copies->second;
      const double parameters = static_cast<double>(memory.parameters.value) / 4;
      const Bytes needed = memory.total() + Bytes{static_cast<int64_t>(std::ceil(copy_bytes * parameters))};
      const Bytes allowed = site_->memory_by_device.at(unit.device);
      if (needed <= allowed) continue;
      Convict(Kind::kMemory, absl::StrCat("units[", u, "]: needs ", FormatBytes(needed), " on ", unit.device,
                                          ", which allows ", FormatBytes(allowed)));
    }
  }

  const Plan& plan_;
  const TrainingShape& shape_;
  const PlanSite* const site_;
  std::vector<PlanViolation> violations_;
};

}  // namespace

std::vector<PlanViolation> CheckPlan(const Plan& plan, const TrainingShape& shape, const PlanSite& site) {
  return Checker(plan, shape, &site).Run();
}

std::vector<PlanViolation> CheckPlanForm(const Plan& plan, const TrainingShape& shape) {
  return Checker(plan, shape, nullptr).Run();
}

}  // namespace medley
