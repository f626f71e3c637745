#pragma once
#include "absl/status/status.h"
#include "runtime/device/device.h"

namespace medley {

// If `device` is an emulated one: from now on a layer's forward and its backward pass take exactly what the
// device's profile has measured of that shape, micro-batch size and precision. Other micro-batch sizes of a
// measured shape deviate from their roofline as those beside them do, linearly between; other shapes keep to
// their roofline. Any other device stays as it is.
//
// What ops a layer consists of is found out by letting a layer of the model run on a recorder. Those that
// occur in one of its two passes alone are slowed down or sped up, by one factor, until the pass fits; others
// keep their roofline's time. InvalidArgument: a measured time is shorter than what those others take; names
// the layer and both.
absl::Status CalibrateEmulation(Device& device);

}  // namespace medley
