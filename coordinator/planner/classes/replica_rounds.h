#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "coordinator/planner/classes/candidate_plans.h"
#include "coordinator/planner/classes/class_search.h"
#include "coordinator/planner/classes/class_tables.h"
#include "coordinator/planner/classes/price_shapes.h"
#include "coordinator/planner/classes/sum_model.h"
#include "runtime/base/stop_flag.h"

namespace medley {

// The rounds over numbers of replicas, degrees and cuts. What sums take depends on all routes together, and shapes are priced one by one; so
// what that depends on is told beforehand. Each number of replicas, up to four times as many each time, is planned for by itself, for all
// degrees together and for each alone; and the layers are cut into a few even parts, of which each stage has one or several, for the more
// alike replicas are cut, the faster are their sums. Each such search is relaxed first, which takes little. Then the most hopeful are
// searched for whole numbers of routes, and their plans predicted; and the best once more with slow classes on the last layers alone.
class ReplicaRounds {
 public:
  // Over some classes. All else must outlive it.
  ReplicaRounds(ClassTables& tables, CandidatePlans& candidates, std::vector<DeviceClass> classes,
                const std::atomic<bool>* stop)
      : tables_(tables),
        candidates_(candidates),
        classes_(std::move(classes)),
        stop_(stop),
        sums_(tables.predictor(), classes_) {}
  ReplicaRounds(const ReplicaRounds&) = delete;

  void Run();

  // None of the plans takes less, for its devices compute so long; infinite: none was looked for.
  double BusySeconds() const;
  // Of searches that tell what devices are worth.
  std::vector<RouteShape> ShapesOfUse() const;
  int64_t priced() const { return priced_; }

 private:
  // Plans of so many replicas, which are taken to sum gradients as the most of them do.
  struct Replicated {
    std::unique_ptr<StageTable> table;
    const SumModel& sums;
    std::vector<ShapePricing> pricings;
    int degree = 0;  // 0: any
    RouteCount routes;
  };

  // The same, all of whose stages are cut at some of the same places.
  struct Cut {
    Cut(Replicated& of, SumModel sums, std::vector<int> cuts, const std::atomic<bool>* stop)
        : of(of),
          sums(std::move(sums)),
          search(*of.table, of.pricings, this->sums, std::move(cuts), of.routes, stop) {}
    Replicated& of;
    const SumModel sums;
    ClassSearch search;
  };

  bool stopped() const { return IsStopped(stop_); }
  void Relax(int degree);
  void LookAtBest();
  void LookAtLater();
  bool LookAt(Cut& cut);
  void JudgeAll(Cut& cut);
  std::vector<RouteCount> Ranges() const;
  std::vector<int> EvenCuts(int parts) const;

  ClassTables& tables_;
  CandidatePlans& candidates_;
  const std::vector<DeviceClass> classes_;
  const std::atomic<bool>* const stop_;
  SumModels sums_;
  std::vector<std::unique_ptr<Replicated>> replicated_;
  std::vector<std::unique_ptr<Cut>> cut_;
  std::vector<std::pair<int, double>> looked_at_;  // degrees and relaxed seconds
  int64_t priced_ = 0;
};

}  // namespace medley
