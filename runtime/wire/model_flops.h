#pragma once
#include <vector>

#include "proto/medley/v1/coordinator.pb.h"

namespace medley {

// What a job's model computes in a second of its steps' median time, as trainings are compared: six operations for each parameter and
// token (Kaplan et al. 2020, section 2.1), whatever is recomputed. 0: nothing was measured yet, or the devices compute nothing.
double ModelFlopsPerSecond(const v1::Job& job);

// What the devices in use of its plan do at most, as was measured of large products on their kinds in its precision; 0: not known of
// all of them.
double PeakFlopsPerSecond(const v1::Job& job, const std::vector<v1::DeviceProfile>& profiles);

}  // namespace medley
