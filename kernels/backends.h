#pragma once
#include <vector>

#include "runtime/device/device.h"

namespace medley {

// Every backend of this build, the one list: those whose hardware is absent are in it and object when asked.
// Names are unique. In the order in which an agent should prefer them.
std::vector<Backend> AllBackends();

}  // namespace medley
