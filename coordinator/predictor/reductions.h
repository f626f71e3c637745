#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/predictor/cost_model.h"
#include "coordinator/predictor/group_sums.h"
#include "coordinator/predictor/library_sums.h"
#include "runtime/base/bytes.h"
#include "runtime/base/dtype.h"
#include "runtime/ir/collective/collective_choice.h"
#include "runtime/ir/collective/collective_problem.h"
#include "runtime/ir/collective/collective_time.h"
#include "runtime/ir/job/reduction_choice.h"
#include "runtime/ir/plan/plan.h"
#include "runtime/ir/program/gradient_slices.h"
#include "runtime/ir/program/group_exchanges.h"

namespace medley {

// A slice of gradients whose holders share the optimizer's state: they scatter it, and gather its parameters.
struct SharedSlice {
  std::vector<int> devices;    // indices into PlanningProblem::devices, in any order
  std::vector<double> shares;  // of each of them (GradientSlice::shares)
  int64_t elements = 0;
  int at_once = 1;  // Reductions::GroupOf, as the next
  bool on_hosts = false;
};

// How the gradients of a problem's plans are summed, and what the ranks of a unit sum and give each other
// within a pass, and how long that takes: what ChooseAllReduce says for
// the measured links (or of the forced algorithm). It depends on the set of devices and the size of the
// vector alone, not on how a plan numbers them, and is remembered; devices that could change places without
// changing any link count as one.
//
// The ranks of a unit exchange by a library of their devices where they would choose it themselves (ChooseGroupWay),
// each device being taken for another one than the others. A library takes what was measured of it (LibrarySumsOf), of
// which scattering and gathering are half; where nothing was, it is taken to be as fast as the measured links. So do
// sums of gradients that go by it. Slices that are shared go around a ring (ChooseSharedRing) or by halves, and gathers of
// parameters travel as f32, whatever gradients do, as the workers have it. Through the host what is exchanged is copied from and to memory that is a device's
// own, at the rates of the device's copies; a rate that is not measured is taken to be no hindrance.
//
// Of more than kMostChosenFor devices, sums are those of GroupSums, for which nobody looks at each pair of them.
//
// A host counts where it is known how many network cards it has, or the links show it: where its devices reach each
// other otherwise than they reach any other device. Otherwise nothing is known that sets it apart. If a hierarchy is forced, every host counts.
//
// Keeps a reference to `problem`, which must outlive it. Not thread-safe.
class Reductions {
 public:
  static constexpr size_t kMostChosenFor = 256;

  explicit Reductions(const PlanningProblem& problem);

  // Devices of one class can change places without changing what any reduction takes.
  int ClassOf(int device) const { return classes_[device]; }
  // A number for a set of devices (indices into PlanningProblem::devices, in any order), so many like which sum at once
  // on the same hosts (SumsAtOnce) and share their network cards. `on_hosts`: gradients are summed there, whatever
  // library there is: units of several devices that hold them exchange by it within passes, or they are of layers that live elsewhere.
  int GroupOf(const std::vector<int>& devices, int at_once = 1, bool on_hosts = false);
  // To sum a vector of gradients of `elements` over a group, all being ready, as the problem charges it. 0 for a single device.
  double Seconds(int group, int64_t elements);
  // To scatter or to gather it.
  double SharedSeconds(const SharedSlice& slice, SumPart part);
  // The same around a ring, of at most kMostChosenFor devices.
  double SharedRingSeconds(const SharedSlice& slice, SumPart part);
  // Likewise, of activations of `dtype` between the ranks of a unit, with what is copied: no algorithm is forced on
  // them.
  double ExchangeSeconds(int group, int64_t elements, Dtype dtype);
  // Until each of a group has all of a buffer of `bytes`, of which each has as large a part before.
  double GatherSeconds(int group, Bytes bytes);
  // Until each has its part, all as large, of the sum of buffers of `bytes`.
  double ScatterSeconds(int group, Bytes bytes);
  // One of what `exchange` counts.
  double ExchangeSeconds(int group, const GroupExchange& exchange);
  // How many ways in there are in a group that messages take in turns, as CollectiveSeconds has it: of its
  // members, and of the parts that its boundaries cut it into.
  int WaysIn(int group) const { return groups_[group].ways_in; }

  // Whether the links between them have boundaries (BoundariesOf), or they have hosts.
  bool Nests(const std::vector<int>& devices) const;
  // Members are places in `devices`.
  std::vector<Boundary> Boundaries(const std::vector<int>& devices) const {
    return BoundariesOf(ProblemOf(devices, /*at_once=*/1));
  }

  // How `devices`, at least one, sum it; members are places in `devices`. `algorithm`: instead of the
  // problem's.
  CollectiveChoice Choose(const std::vector<int>& devices, int64_t elements, int at_once,
                          std::optional<CollectiveAlgorithm> algorithm) const;
  CollectiveChoice Choose(const std::vector<int>& devices, int64_t elements, int at_once = 1) const {
    return Choose(devices, elements, at_once, problem_.forced_all_reduce);
  }
  // How a slice is shared: around a ring, or by halving and doubling in the order of its devices; members are places in these.
  CollectiveChoice ChooseShared(const SharedSlice& slice) const;
  // As ExchangeSeconds has it.
  CollectiveChoice ChooseExchange(const std::vector<int>& devices, int64_t elements, Dtype dtype) const;

  // Members of the groups for which a choice had to be made, in all: what that cost.
  int64_t chosen_members() const { return chosen_members_; }

 private:
  // Through the host, of each device that has memory of its own.
  struct Copies {
    double store_seconds_per_byte = 0, fetch_seconds_per_byte = 0;
  };
  struct SharedTimes {
    double scatter_seconds = 0, gather_seconds = 0;
    double both() const { return scatter_seconds + gather_seconds; }
    double Of(SumPart part) const { return part == SumPart::kScattered ? scatter_seconds : gather_seconds; }
  };
  struct Group {
    int members = 0;
    std::unique_ptr<GroupSums> many;  // null: the sums are of `problem`
    CollectiveProblem problem;        // elements are set for each choice
    int ways_in = 0;
    std::vector<Copies> copies;  // of what the ranks of a unit exchange; empty: nothing is copied
    // By a library of the devices, of what the ranks of a unit exchange, and of gradients; null: as the links are.
    const std::vector<AllReduceTimes>*exchanges_by_library = nullptr, *sums_by_library = nullptr;
    std::unordered_map<int64_t, double> seconds_by_elements;
    std::map<std::pair<int64_t, Dtype>, double> exchange_seconds;
    std::map<std::pair<ExchangeKind, int64_t>, double> half_ring_seconds;           // by bytes
    std::map<std::pair<int64_t, std::vector<double>>, SharedTimes> shared_seconds;  // by elements and shares
    // By halving and doubling, by elements, shares and classes in the order of the devices.
    std::map<std::tuple<int64_t, std::vector<double>, std::vector<int>>, SharedTimes> halved_seconds;
  };
  // Whether a slice of so many devices may be shared by halving and doubling, and whether it must.
  bool MayHalve(size_t devices) const;
  bool MustHalve(size_t devices) const {
    return MayHalve(devices) && problem_.forced_all_reduce == CollectiveAlgorithm::kHalvingDoubling;
  }
  // By halving and doubling, in the order of the devices that `problem` has.
  static SharedTimes HalvedTimes(CollectiveProblem problem, const SharedSlice& slice);
  // Of more than kMostChosenFor devices, in their order.
  GroupSums& ManyOf(const SharedSlice& slice);
  double WholeSeconds(int group, int64_t elements);
  const SharedTimes& RingTimesOf(Group& group, const SharedSlice& slice);
  const SharedTimes& HalvedTimesOf(Group& group, const SharedSlice& slice);
  // What a scatter takes at least, in whatever order and by whatever shares.
  double LeastScatterSeconds(int group, int64_t elements) const;
  // Of a ring's first half, which scatters, or its second one, which gathers.
  double HalfRingSeconds(int group, ExchangeKind half, Bytes bytes);
  void FindHosts();
  void FindClasses();
  bool Interchangeable(int a, int b) const;
  std::vector<int> Canonical(const std::vector<int>& devices) const;
  // Those of a class by their shares, which follow.
  SharedSlice Canonical(const SharedSlice& slice) const;
  CollectiveProblem ProblemOf(const std::vector<int>& devices, int at_once) const;
  std::vector<Copies> CopiesOf(const std::vector<int>& devices) const;
  // Of the slowest device, to the host and from it.
  double CopySeconds(int group, double stored_bytes, double fetched_bytes) const;
  CollectiveChoice ChooseFor(const std::vector<int>& devices, int64_t elements, double wire_bytes_per_element,
                             int at_once, std::optional<CollectiveAlgorithm> algorithm) const;

  // Of members that are places in `from`: as places in `to`, which has the same devices.
  static CollectiveChoice Renumbered(CollectiveChoice choice, const std::vector<int>& from,
                                     const std::vector<int>& to);

  const PlanningProblem& problem_;
  std::vector<int> hosts_;                            // of each device (HostsThatCount)
  std::unordered_map<int, int> devices_on_;           // of each such host
  std::vector<int> classes_;                          // of each device
  std::vector<std::vector<int>> places_;              // CollectiveProblem::places_of_members, of all devices
  std::map<std::vector<int>, int> group_by_classes_;  // at_once and on_hosts behind them
  std::map<std::vector<int>, std::unique_ptr<GroupSums>> many_in_order_;  // likewise, by classes in order
  std::vector<Group> groups_;
  mutable SumSamples samples_;  // of large groups
  int64_t chosen_members_ = 0;
};

// The devices of a plan's ranks, by DevicesByName. InvalidArgument: one is not in the problem.
absl::StatusOr<std::vector<int>> DevicesOfRanks(const std::unordered_map<std::string, int>& device_by_name,
                                                const Plan& plan);

// How many sums like that of a slice run at once on each host of its holders: the ranks of a unit sum their parts of its
// blocks at the same time, and all wait for the units that have the fewest beside each other.
class SumsAtOnce {
 public:
  SumsAtOnce() = default;  // of no ranks
  // `devices`: of each rank of the plan.
  SumsAtOnce(const PlanningProblem& problem, const Plan& plan, const std::vector<int>& devices);
  // Of holders, of which there is one at least.
  int Over(const std::vector<Rank>& holders) const;
  // Whether a slice's holders sum it on their hosts (SumsOnHosts).
  bool OnHosts(const GradientSlice& slice) const;

 private:
  std::vector<int> degree_;  // of the unit of each rank
  std::vector<int> beside_;  // of each rank, those of its unit that are on its host, itself too
};

// Elements that even slices over `members`, at least one, take as long to be scattered or gathered as slices of `elements` of which the
// smallest is `least_part`: each link of the ring carries all but one of them. In sixteenths of what there are, for few sizes to be asked for.
int64_t ElementsAsEven(int64_t elements, int members, double least_part);

// Every reduction of `plan` (valid for `problem`) that more than one unit takes part in, once for each set of
// holders and size, in the order of the units and of their slices. Pure.
// InvalidArgument: a unit's device is not in the problem.
absl::StatusOr<std::vector<ReductionChoice>> ReductionsOf(const PlanningProblem& problem, const Plan& plan);
// By `choosing`, which is of `problem`, for who has one: of many devices it takes long to make.
absl::StatusOr<std::vector<ReductionChoice>> ReductionsOf(const PlanningProblem& problem, const Plan& plan,
                                                          const Reductions& choosing);

// Every sum within a pass of a unit of several devices (GroupExchanges), once for each unit and size; of
// what is gathered or scattered there is nothing to choose. Pure. Errors as ReductionsOf.
absl::StatusOr<std::vector<ReductionChoice>> ExchangesOf(const PlanningProblem& problem, const Plan& plan);
absl::StatusOr<std::vector<ReductionChoice>> ExchangesOf(const PlanningProblem& problem, const Plan& plan,
                                                         const Reductions& choosing);

}  // namespace medley
