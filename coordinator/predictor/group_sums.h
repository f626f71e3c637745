#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "coordinator/predictor/cost_model.h"
#include "coordinator/predictor/halving_rounds.h"
#include "runtime/ir/collective/collective_choice.h"
#include "runtime/ir/collective/collective_problem.h"
#include "runtime/ir/collective/collective_time.h"

namespace medley {

class Reductions;

// A few devices, and what sums over all of them take. What was asked once is remembered.
class SumSample {
 public:
  // `at_once`: how many sums like these share the cards of their hosts (Reductions::GroupOf).
  SumSample(const PlanningProblem& problem, const std::vector<int>& devices, int at_once);
  ~SumSample();

  int members() const { return static_cast<int>(all_.size()); }
  // Over the links, by that algorithm; none: by the one that is chosen, or the problem's forced one.
  double Seconds(int64_t elements, std::optional<CollectiveAlgorithm> algorithm);
  // To scatter or to gather it in even parts (Reductions::SharedSeconds); and the same around a ring.
  double SharedSeconds(int64_t elements, SumPart part);
  double SharedRingSeconds(int64_t elements, SumPart part);
  CollectiveChoice Choose(int64_t elements, std::optional<CollectiveAlgorithm> algorithm) const;
  const std::vector<int>& devices() const { return devices_; }
  std::vector<Boundary> Boundaries() const;

 private:
  const PlanningProblem problem_;
  const std::vector<int> devices_;
  const std::unique_ptr<Reductions> reductions_;
  std::vector<int> all_;
  const int at_once_;
  std::map<std::pair<int64_t, std::optional<CollectiveAlgorithm>>, double> seconds_;
};

// The samples of many sets: those that are made up alike are one, for devices of a class may change places.
class SumSamples {
 public:
  // `class_of`: of each device (device_classes.h). Both must outlive it.
  SumSamples(const PlanningProblem& problem, const std::vector<int>& class_of)
      : problem_(problem), class_of_(class_of) {}

  const PlanningProblem& problem() const { return problem_; }
  // Of as many devices at most, taken evenly out of these.
  SumSample& Of(const std::vector<int>& devices, int most, int at_once);

 private:
  const PlanningProblem& problem_;
  const std::vector<int>& class_of_;
  // By how many sum at once, and the class of each and the number of its host among them.
  std::map<std::pair<int, std::vector<std::pair<int, int>>>, std::unique_ptr<SumSample>> samples_;
};

// Beyond so many members what a sum takes is told by smaller groups.
constexpr int kMostSummed = 16;
// But not in clusters of no more devices than that where some host has several of the members.
constexpr int kMostSummedWhole = 64;

// What sums of gradients take over one set of devices that may be large.
//
// Of more than `most_exact` members, or of some dozens more where hosts have several (all of kMostSummedWhole devices), nothing is run through message by
// message. A ring's rounds are those of a ring over some of its members with as large messages; trees go on as they do over some; halving and doubling is told round by round (HalvingRounds). A hierarchy is the rings of its
// levels: within hosts or what the links show to be together, then over one member of each, and so on, as
// HierarchicalSchedule has them: all of a vector leaves a host by its cards in turns, and a rack or a site by one way. What is scattered or
// gathered in even parts goes around a ring, or by halves (Reductions::SharedSeconds).
class GroupSums {
 public:
  // `samples` must outlive it; `devices`: of its problem. `at_once`: so many such sums share the cards of their hosts
  // (Reductions::GroupOf, also `on_hosts`).
  GroupSums(SumSamples& samples, std::vector<int> devices, int most_exact, int at_once = 1,
            bool on_hosts = false);

  // To sum a vector of so many elements; of many members, between those of the next smaller and larger sizes that it is worked out for.
  double Seconds(int64_t elements, SumPart part = SumPart::kWhole);
  // Likewise, worked out for just so many.
  double SecondsOf(int64_t elements, SumPart part = SumPart::kWhole);
  // How they sum it, as they are numbered here: by the algorithm that is the fastest, or the one that is asked for. Along a
  // ring members follow each other by what their links show of the groups that they are in, and by hosts.
  CollectiveChoice Choose(int64_t elements, std::optional<CollectiveAlgorithm> algorithm);
  // To scatter or to gather it around a ring, of members of whom some have to tell.
  double RingSecondsOf(int64_t elements, SumPart part) const {
    return ring_.Seconds(static_cast<double>(elements), part);
  }
  // Whether it is shared by halving and doubling, of members of whom some have to tell.
  bool SharesByHalves(int64_t elements);
  int members() const { return static_cast<int>(devices_.size()); }
  bool Nests() const { return !boundaries_.empty(); }

 private:
  struct Ring {
    SumSample* sample = nullptr;
    int members = 0;
    double Seconds(double elements, SumPart part = SumPart::kWhole) const;
  };
  struct Level {
    std::vector<Ring> rings;  // one of each make-up
    double ways = 1;          // such a part of the vector goes through each
  };
  // A hierarchy along some of the boundaries.
  struct Nest {
    std::vector<Boundary> boundaries;
    std::vector<Level> levels;
  };
  struct Way {
    CollectiveAlgorithm algorithm = CollectiveAlgorithm::kRing;
    const Nest* nest = nullptr;  // of a hierarchy
    double seconds = 0;
  };

  // Hosts, where they count, and what shows in the links of some devices.
  void FindBoundaries();
  Nest NestAlong(std::vector<Boundary> boundaries, bool from_hosts) const;
  Ring RingOver(const std::vector<int>& devices, int at_once) const;
  Way FastestWay(int64_t elements, std::optional<CollectiveAlgorithm> algorithm);
  double HalvedSeconds(int64_t elements, SumPart part);
  double TreeSeconds(int64_t elements);
  double NestSeconds(const Nest& nest, int64_t elements) const;

  SumSamples& samples_;
  const PlanningProblem& problem_;
  std::vector<int> devices_;
  const int most_exact_, at_once_;
  const std::vector<AllReduceTimes>* by_library_;  // null: as the links are
  SumSample* whole_ = nullptr;                     // of most_exact, or all
  SumSample* exact_ = nullptr;                     // of all; null: some have to tell of them
  SumSample* half_ = nullptr;
  Ring ring_;
  // Places in devices_, those of an end side by side: neighbours in a ring reach each other alike.
  std::vector<int> order_;
  std::vector<Boundary> boundaries_;
  bool shows_hosts_ = false;        // the first boundary is that of the hosts
  bool shares_outer_ways_ = false;  // what leaves a part of a further boundary takes turns
  double ways_out_ = 1;             // of the host with the fewest, or its part of them
  std::vector<Nest> nests_;
  // Whole, in the order of the ring along boundaries, and shared, as they are numbered; made when they are asked for.
  std::unique_ptr<HalvingRounds> whole_rounds_, shared_rounds_;
  std::map<std::pair<int64_t, SumPart>, double> seconds_;
};

}  // namespace medley
