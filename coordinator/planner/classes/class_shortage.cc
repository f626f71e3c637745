#include "coordinator/planner/classes/class_shortage.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/planner/classes/class_fit.h"
#include "coordinator/planner/classes/host_layers.h"
#include "coordinator/planner/classes/stage_table.h"
#include "coordinator/planner/techniques/memory_saving.h"
#include "coordinator/planner/techniques/sharing.h"
#include "coordinator/predictor/device_classes.h"
#include "runtime/base/bytes.h"
#include "runtime/base/counted.h"
#include "runtime/base/dtype.h"
#include "runtime/base/stop_flag.h"

namespace medley {
namespace {

// Shorter sequences than such a part are another job.
constexpr int kLeastPartOfSequence = 8;
// Of copies that have not been measured, whose time does not matter here.
constexpr double kAnyRate = 1e9;

// "n2/gpu0 (A100)"
std::string NameAndKind(const DeviceCost& device) {
  return absl::StrCat(device.name, " (", device.kind, ")");
}

std::string DescribeBlocks(const StageForm& stage, int layers_of_model) {
  std::vector<std::string> parts;
  if (stage.first) parts.push_back("the embedding");
  if (stage.layers > 0) parts.push_back(absl::StrCat(stage.layers, " of ", layers_of_model, " layers"));
  if (stage.from_end == 1) parts.push_back("the head");
  return absl::StrJoin(parts, " and ");
}

std::string DescribeRoutes(const NearestFit& nearest) {
  return absl::StrCat(Counted(nearest.routes, "route"), " of ", Counted(nearest.stages, "stage"),
                      nearest.routes > 1 ? " each" : "");
}

// Of what the stage that lacks most may do.
class StageNeeds {
 public:
  StageNeeds(const PlanningProblem& problem, const NearestFit& nearest)
      : nearest_(nearest),
        memories_(problem),
        optimizer_share_(problem.constraints.saves_memory ? OwnShare(nearest.routes) : 1),
        scope_{.layers_on_hosts = problem.constraints.saves_memory,
               .least_routes = nearest.routes,
               .only_degree = nearest.degree},
        whole_(problem, DeviceClassesOf(problem), memories_, 1, scope_),
        shared_(problem, DeviceClassesOf(problem), memories_, optimizer_share_, scope_) {}

  const StageKind& kind() const { return whole_.kinds()[nearest_.stage.kind]; }

  // "61.0 GiB as it is, 55.2 GiB with recomputed layers, ..."
  std::string Describe() {
    std::vector<std::string> needs;
    const auto add = [&](const std::string& way, std::optional<Bytes> lacking) {
      if (lacking) needs.push_back(absl::StrCat(FormatBytes(kind().room.memory + *lacking), " ", way));
    };
    add("as it is", LeastOf(whole_, {UnitSaving{}}));
    add("with recomputed layers",
        LeastOf(whole_, {{.recompute = Recompute::kAllButAttention}, {.recompute = Recompute::kLayers}}));
    add("with rows cut among a unit's devices", LeastOf(whole_, {{.sequence_parallel = true}}));
    add("with activations in host memory", LeastOf(whole_, {{.activations_home = ActivationsHome::kHost}}));
    add("with layers in host memory", LeastOf(whole_, {{.window_layers = kFewestWindows}}));
    if (optimizer_share_ < 1) {
      add(absl::StrCat("with the optimizer's state shared by ", Counted(nearest_.routes, "route")),
          LeastOf(shared_, {UnitSaving{}}));
    }
    if (needs.size() > 1) add("with the best of these together", nearest_.lacking);
    return absl::StrJoin(needs, ", ");
  }

 private:
  // None: the stage may do none of them.
  std::optional<Bytes> LeastOf(StageTable& table, const std::vector<UnitSaving>& savings) {
    const std::vector<UnitSaving>& ways = whole_.WaysByTime(nearest_.stage.kind, nearest_.stage.size);
    std::optional<Bytes> least;
    for (const UnitSaving& saving : savings) {
      UnitSaving without_windows = saving;
      without_windows.window_layers = 0;
      StageForm stage = nearest_.stage;
      stage.saving = saving;
      if (std::count(ways.begin(), ways.end(), without_windows) == 0 || !table.MaySave(stage)) continue;
      const Bytes lacking = table.ShortageOf(stage);
      if (!least || lacking < *least) least = lacking;
    }
    return least;
  }

  const NearestFit& nearest_;
  StageMemories memories_;
  const double optimizer_share_;
  const TableScope scope_;
  StageTable whole_, shared_;
};

// What would make room by itself.
class Remedies {
 public:
  Remedies(const PlanningProblem& problem, const NearestFit& nearest, const std::atomic<bool>* stop)
      : problem_(problem), nearest_(nearest), stop_(stop) {}

  std::vector<std::string> Find() {
    TryConstraints();
    TryBatch();
    TryPrecision();
    TryHosts();
    TryDevices();
    return std::move(found_);
  }

 private:
  // True: there would be room.
  bool Try(const std::string& text, const std::function<void(PlanningProblem&)>& change) {
    if (IsStopped(stop_)) return false;
    PlanningProblem changed = problem_;
    change(changed);
    if (!FitsInMeasuredUnits(changed, stop_) || IsStopped(stop_)) return false;
    found_.push_back(text);
    return true;
  }

  void TryConstraints() {
    const PlanConstraints& allowed = problem_.constraints;
    if (!allowed.saves_memory) {
      Try("ways to save memory, which constraints.saves_memory does not allow",
          [](PlanningProblem& problem) { problem.constraints.saves_memory = true; });
    }
    if (allowed.max_stages > 0) {
      Try(absl::StrCat("more stages than constraints.max_stages allows, ", allowed.max_stages),
          [](PlanningProblem& problem) { problem.constraints.max_stages = 0; });
    }
    if (allowed.max_routes > 0) {
      Try(absl::StrCat("more routes than constraints.max_routes allows, ", allowed.max_routes),
          [](PlanningProblem& problem) { problem.constraints.max_routes = 0; });
    }
    if (ScheduleByClasses(allowed) == Schedule::kGPipe) {
      Try("one_forward_one_backward in constraints.schedules, for gpipe keeps all micro-batches of a step",
          [](PlanningProblem& problem) {
            problem.constraints.schedules = {Schedule::kOneForwardOneBackward};
          });
    }
  }

  void TryBatch() {
    if (const int least = problem_.micro_batch_sizes.front(); least > 1) {
      Try(absl::StrCat("micro-batches of 1 sequence instead of ", least, " (constraints.micro_batch_sizes)"),
          [](PlanningProblem& problem) {
            problem.micro_batch_sizes = {1};
            for (DeviceCost& device : problem.devices) {
              if (device.times.size() > 1) device.times.resize(1);
              for (ShareCost& share : device.shares) share.times.resize(1);
            }
          });
    }
    for (int part = 2; part <= kLeastPartOfSequence && problem_.shape.sequence >= part; part *= 2) {
      const int sequence = problem_.shape.sequence / part;
      if (Try(absl::StrCat("batch.sequence_length ", sequence, " instead of ", problem_.shape.sequence),
              [&](PlanningProblem& problem) { problem.shape.sequence = sequence; }))
        break;
    }
  }

  void TryPrecision() {
    const bool of_job = problem_.precision == Precision::kF32;
    const auto wide = First([](const DeviceCost& device) { return device.activations == Dtype::kF32; });
    if (wide == nullptr) return;
    const Dtype narrow = TypeOf(of_job ? Precision::kBf16 : problem_.precision);
    Try(of_job ? "precision bf16 or f16, on devices that compute in it"
               : absl::StrCat("devices that compute in ", std::string(NameOf(problem_.precision)),
                              ", unlike ", NameAndKind(*wide)),
        [narrow](PlanningProblem& problem) {
          for (DeviceCost& device : problem.devices) device.activations = narrow;
        });
  }

  void TryHosts() {
    if (!problem_.constraints.saves_memory) return;
    if (const DeviceCost* const unmeasured = First(std::not_fn(CopiesAreMeasured))) {
      Try(absl::StrCat("host memory, if copies to and from it were measured on ", NameAndKind(*unmeasured)),
          [](PlanningProblem& problem) {
            for (DeviceCost& device : problem.devices) {
              if (CopiesAreMeasured(device)) continue;
              device.fetch_bytes_per_second = device.store_bytes_per_second = kAnyRate;
            }
          });
    }
    const DeviceCost* const limited = First(
        [](const DeviceCost& device) { return CopiesAreMeasured(device) && device.host_memory > Bytes{0}; });
    if (limited == nullptr) return;
    const Bytes part = {static_cast<int64_t>(HostBytesFor(problem_, *limited))};
    Try(absl::StrCat("more host memory than the ", FormatBytes(part), " that ", NameAndKind(*limited),
                     " has of it"),
        [](PlanningProblem& problem) {
          for (DeviceCost& device : problem.devices) device.host_memory = {};
        });
  }

  void TryDevices() {
    if (const std::optional<int> degree = UnmeasuredDegree())
      found_.push_back(
          absl::StrCat("units of ", *degree, " devices, of whose shares some have not been measured"));
    if (const std::optional<int> more = MoreDevicesToFit(problem_, nearest_, stop_)) {
      const int example = DeviceClassesOf(problem_)[nearest_.device_class].first();
      found_.push_back(
          absl::StrCat(Counted(*more, "device"), " more such as ", NameAndKind(problem_.devices[example])));
    }
    Try(absl::StrCat(FormatBytes(nearest_.lacking), " more memory on every device"),
        [&](PlanningProblem& problem) {
          for (DeviceCost& device : problem.devices) {
            device.room.memory += nearest_.lacking;
            for (ShareCost& share : device.shares) share.room.memory += nearest_.lacking;
          }
        });
  }

  // The first with which there would be room; with those that were measured there is none.
  std::optional<int> UnmeasuredDegree() const {
    for (int degree = 2; degree <= MostDevicesOfHost(problem_) && !IsStopped(stop_); ++degree) {
      if (FitsByClasses(problem_, degree, problem_.constraints.saves_memory, stop_) && !IsStopped(stop_))
        return degree;
    }
    return std::nullopt;
  }

  const DeviceCost* First(const std::function<bool(const DeviceCost&)>& is) const {
    const auto found = std::find_if(problem_.devices.begin(), problem_.devices.end(), is);
    return found == problem_.devices.end() ? nullptr : &*found;
  }

  const PlanningProblem& problem_;
  const NearestFit& nearest_;
  const std::atomic<bool>* const stop_;
  std::vector<std::string> found_;
};

std::string DescribeRemedies(const PlanningProblem& problem, const NearestFit& nearest,
                             const std::atomic<bool>* stop) {
  const std::vector<std::string> remedies = Remedies(problem, nearest, stop).Find();
  if (remedies.empty()) return "";
  return absl::StrCat("; there would be room with ", absl::StrJoin(remedies, ", or with "));
}

}  // namespace

std::string WhyNoneByClasses(const PlanningProblem& problem, const std::atomic<bool>* stop) {
  const std::optional<NearestFit> nearest = NearestByClasses(problem, stop);
  const std::string devices = absl::StrCat(Counted(std::ssize(problem.devices), "device"), " in ",
                                           Counted(std::ssize(DeviceClassesOf(problem)), "class", "classes"));
  if (!nearest) {
    return absl::StrCat(
        "no plan of ", devices, " was found",
        IsStopped(stop)
            ? ""
            : ": none that the constraints allow was measured with whole blocks or an even share of them");
  }
  if (nearest->lacking <= Bytes{0}) {
    return absl::StrCat("no plan of ", devices, " was found, although by what stages need ",
                        DescribeRoutes(*nearest), " would fit their memory");
  }
  StageNeeds needs(problem, *nearest);
  const StageForm& stage = nearest->stage;
  std::string text = absl::StrCat(
      "no plan fits the memory of ", devices, ": what comes nearest, ", DescribeRoutes(*nearest),
      " with micro-batches of ", problem.micro_batch_sizes[stage.size], ", lacks ",
      FormatBytes(nearest->lacking), " on ",
      nearest->degree > 1 ? absl::StrCat("each of ", nearest->degree, " devices such as ") : "",
      NameAndKind(problem.devices[needs.kind().devices[0]]), " in stage ",
      nearest->stages - stage.from_end + 1, ", which has ", DescribeBlocks(stage, problem.shape.model.layers),
      "; of ", DescribeLimit(needs.kind().room), " it needs ", needs.Describe());
  absl::StrAppend(&text, DescribeRemedies(problem, *nearest, stop));
  return text;
}

std::string RemediesByClasses(const PlanningProblem& problem, const std::atomic<bool>* stop) {
  const std::optional<NearestFit> nearest = NearestByClasses(problem, stop);
  if (!nearest || nearest->lacking <= Bytes{0}) return "";
  return DescribeRemedies(problem, *nearest, stop);
}

}  // namespace medley
