#pragma once
#include "absl/status/statusor.h"
#include "runtime/device/device.h"
#include "runtime/engine/align/call_file.h"
#include "runtime/engine/align/captured_call.h"

namespace medley {

// Runs `call`, which passes CheckCall, once on `device`, in `precision` if the op knows several, and gives
// what it wrote. What an op only writes holds NaN before (all bits set), so that an element that is left out
// shows. Blocks until the device is done; allocates what the call needs and frees it again.
//
// An error of the op itself or of its execution is CallResult::status, not an error of Replay; after an error
// of its execution the queue is poisoned and the device of no more use.
// Errors: ResourceExhausted, the call does not fit the device; those of copying.
absl::StatusOr<CallResult> Replay(Device& device, const CapturedCall& call, Precision precision);

}  // namespace medley
