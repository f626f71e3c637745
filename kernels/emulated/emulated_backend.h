#pragma once
#include "runtime/device/device.h"

namespace medley {

// The backend "emulated": devices that take as long and hold as much as DeviceDescription::profile says, and
// compute nothing. Any number in a process. Layers take their roofline's time until the device is calibrated
// to what its profile has measured (agent/profile/layer_calibration.h).
Backend EmulatedBackend();

}  // namespace medley
