#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "coordinator/planner/classes/route_shape.h"
#include "coordinator/predictor/alike_routes.h"
#include "runtime/ir/link/link_model.h"

namespace medley {

// What sums of gradients over many replicas take, before it is known who they are: those over a sample of devices,
// of each class in proportion to how many there are of it, where each host holds the same blocks. Good enough to search by.
class SumModel {
 public:
  // `replicas`: of the sample at most. 1: nothing is summed. `least_degree`: how many devices units have at least, the ranks
  // of which sum at once; they take part in every slice of those that are cut finer.
  // `least_begin`: of each class, the layer before which it holds none; of as many layers sums are over the others alone. Empty, or 0:
  // it may hold any.
  SumModel(AlikeRoutePredictor& predictor, const std::vector<DeviceClass>& classes, int replicas,
           int least_degree, std::vector<int> least_begin = {});

  const std::vector<int>& least_begin() const { return least_begin_; }
  double Seconds(int64_t elements) const;
  // All sums of a rank of the stage of a route that has the most, one after another; scattered, where the optimizer's state is shared.
  double LongestStreamSeconds(const StageTable& table, const RouteShape& shape) const;
  // Of each stage of a route, behind its last backward: what of its sums is not hidden behind that, norms and the update.
  // `longest_seconds`: the longest stream of any route of the plan, which begins with the last blocks, and not before
  // this route has been through them.
  std::vector<double> AfterSeconds(const StageTable& table, const RouteShape& shape,
                                   double longest_seconds) const;
  // Of each stage of a route, before which its first forward does not end: where replicas share the optimizer's state
  // parameters are gathered from the step's begin on, slice by slice, and each slice's blocks wait for it.
  std::vector<double> FirstForwardSeconds(const StageTable& table, const RouteShape& shape) const;

 private:
  // Of a stage that begins with some layer.
  struct StageSums {
    double bucket_seconds = 0, stream_seconds = 0;
  };
  StageSums SumsOf(const StageTable& table, const StageForm& stage, int begin, SumPart part) const;

  // Straight lines between sizes, in elements for bytes; none: nothing is summed.
  struct OfPart {
    LinkModel by_elements, without_later;  // over all, and over classes that may hold any layer
  };
  using OfHome = std::array<OfPart, 3>;  // by SumPart
  std::array<OfHome, 2> of_homes_;       // where layers live on their devices, and elsewhere
  std::vector<int> least_begin_;
  int later_layer_ = 0;  // the least of those
  const int least_degree_;
  int64_t bucket_elements_ = 0;
};

// The same over some classes, of each number of replicas and least degree. Made as they are asked for.
class SumModels {
 public:
  // Both must outlive it.
  SumModels(AlikeRoutePredictor& predictor, const std::vector<DeviceClass>& classes)
      : predictor_(predictor), classes_(classes) {}

  const SumModel& Of(int replicas, int least_degree) {
    return known_.try_emplace({replicas, least_degree}, predictor_, classes_, replicas, least_degree)
        .first->second;
  }

 private:
  AlikeRoutePredictor& predictor_;
  const std::vector<DeviceClass>& classes_;
  std::map<std::pair<int, int>, SumModel> known_;
};

// The same over one class by itself, where it holds the same blocks in all replicas. Made as they are asked for.
class SumsOfClasses {
 public:
  SumsOfClasses(AlikeRoutePredictor& predictor, const std::vector<DeviceClass>& classes)
      : predictor_(predictor), classes_(classes) {}

  // Of about so many units of some degree.
  const SumModel& Of(int device_class, int units, int degree);

 private:
  AlikeRoutePredictor& predictor_;
  const std::vector<DeviceClass>& classes_;
  std::map<std::tuple<int, int, int>, SumModel> known_;
};

}  // namespace medley
