#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "coordinator/predictor/cost_model.h"
#include "runtime/ir/collective/collective_choice.h"
#include "runtime/ir/collective/collective_problem.h"

namespace medley {

class Reductions;

// A few devices, and what sums over all of them take. What was asked once is remembered.
class SumSample {
 public:
  // `at_once`: how many sums like these share the cards of their hosts (Reductions::GroupOf).
  SumSample(const PlanningProblem& problem, const std::vector<int>& devices, int at_once);
  ~SumSample();

  int members() const { return static_cast<int>(all_.size()); }
  // By that algorithm; none: by the one that is chosen, or the problem's forced one.
  double Seconds(int64_t elements, std::optional<CollectiveAlgorithm> algorithm);
  // Whether links between them have no boundaries (Reductions::WaysIn).
  bool is_flat();
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

// Beyond so many members what a sum takes is extrapolated from smaller groups.
constexpr int kMostSummed = 16;

// What sums of gradients take over one set of devices that may be large.
class GroupSums {
 public:
  // `samples` must outlive it; `devices`: of its problem. Beyond `most_exact` members, times are extrapolated from sets of
  // half as many and as many, taken evenly out of them; or, where hosts have several and that is faster, they are those
  // of a hierarchy: rings within hosts, and what each of a host's devices then has summed with one of each other host,
  // as many at a time as there are cards. All wait for the host with the fewest: all of the vector leaves and enters it.
  // `at_once`: so many such sums share the cards of their hosts (Reductions::GroupOf).
  GroupSums(SumSamples& samples, std::vector<int> devices, int most_exact, int at_once = 1);

  // To sum a vector of so many elements; of many members, between those of the next smaller and larger sizes that it is worked out for.
  double Seconds(int64_t elements);
  // Likewise, worked out for just so many.
  double SecondsOf(int64_t elements);
  // How they sum it, as they are numbered here: by the algorithm that is the fastest, or the one that is asked for. Along a
  // ring members follow each other by what their links show of the groups that they are in, and by hosts.
  CollectiveChoice Choose(int64_t elements, std::optional<CollectiveAlgorithm> algorithm);
  int members() const { return static_cast<int>(devices_.size()); }
  bool Nests() const { return !BoundariesOfAll(/*of_hosts=*/true).empty(); }

 private:
  double Extrapolated(int64_t elements, CollectiveAlgorithm algorithm) const;
  // In one ring, or in nested ones.
  double InRings(int64_t elements);
  // By rings within hosts, and rings across these.
  double AcrossHosts(int64_t elements);
  // By an algorithm; of a hierarchy also whether it begins with the hosts.
  struct Way {
    CollectiveAlgorithm algorithm = CollectiveAlgorithm::kRing;
    bool by_hosts = false;
    double seconds = 0;
  };
  Way FastestWay(int64_t elements, std::optional<CollectiveAlgorithm> algorithm);
  // What shows in the links of some of them; and their hosts.
  std::vector<Boundary> BoundariesOfAll(bool of_hosts) const;
  void FindHosts(SumSamples& samples, int most_exact, int at_once);

  const PlanningProblem& problem_;
  std::vector<int> devices_;
  SumSample* whole_ = nullptr;         // of most_exact, or all
  SumSample* half_ = nullptr;          // of half as many; null: `whole_` is all
  std::vector<SumSample*> hosts_;      // one of each make-up; none: no hierarchy
  double members_of_host_ = 1;         // of the largest host, whose devices have the smallest parts
  double ways_out_ = 1;                // of the host with the fewest, or its part of them
  std::unique_ptr<GroupSums> across_;  // of one device of each host
  std::map<int64_t, double> seconds_;
};

}  // namespace medley
