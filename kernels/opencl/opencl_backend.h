#pragma once
#include "runtime/device/device.h"

namespace medley {

// A device of an OpenCL driver: matmuls by CLBlast where it is installed, everything else by the portable
// kernels, and what the device cannot by the reference on the host.
//
// `variant` chooses the device: empty is the first one, "PLATFORM:DEVICE" two indexes, anything else a part
// of its name, upper and lower case alike. `cores` are those of a device that is the processor: opening binds
// all threads of the process to them for good, and a driver that has not yet started its threads starts one a
// core. Other devices ignore them. Computes in f32. Besides the contract, open returns
//   Unavailable      no OpenCL library or no device, with the reason;
//   NotFound, InvalidArgument
//                    a variant that names no device, as ChooseOpenClDevice; or a core that is none;
//   Unimplemented    the device is too small for the kernels;
//   Internal         the driver's compiler refuses the kernels, with its log.
// The first open on a machine compiles for seconds; compiled kernels are kept
// (ProgramCache::DefaultFolder()).
//
// It finds by itself the GPUs that no other backend finds. Processors, whose cores are the cpu backend's, are
// devices only where a configuration says so.
Backend OpenClBackend();

}  // namespace medley
