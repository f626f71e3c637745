#pragma once
#include <vector>

#include "coordinator/predictor/alike_routes.h"
#include "coordinator/predictor/device_classes.h"

namespace medley {

// Shapes are priced with what sums take over all classes, so a class that is slow to sum makes all stages dear, whichever hold it. That prices
// of its devices do not tell, so what may be done about such a class is planned for by itself: it is left out, or it holds the last
// layers alone, whose sums hide behind backwards and forwards of the other layers.

// Leaves out the class that does least among those without which sums take much less; false: there is none.
bool LeaveOutSlowest(AlikeRoutePredictor& predictor, std::vector<DeviceClass>& classes);

// Of each class, the layer before which it had better hold none (SumModel): the middle one where sums over some of its hosts take much
// longer than those of the fastest class. Empty: that is so of no class.
std::vector<int> LeastBegins(AlikeRoutePredictor& predictor, const std::vector<DeviceClass>& classes);

}  // namespace medley
