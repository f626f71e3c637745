#pragma once
#include "comm/transport/transport.h"
#include "proto/medley/v1/agent.pb.h"

namespace medley {

// Adds to `measured` what went between this unit and the others so far, by peer and kind of message. A unit
// that has exchanged nothing adds nothing, unless messages were dropped.
void AddTraffic(const Transport& transport, v1::MeasuredStep& measured);

}  // namespace medley
