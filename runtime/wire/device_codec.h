#pragma once
#include <cstdint>

#include "proto/medley/v1/cluster.pb.h"
#include "runtime/base/bytes.h"
#include "runtime/device/device_description.h"

namespace medley {

// What a message says of memory; more than 2^63 - 1 bytes are that many.
Bytes DecodeBytes(uint64_t bytes);

// `device` must hold to its rules (runtime/wire/validate.h). Its kind and what it computes in are found out by
// opening it, and are no part of a description.
DeviceDescription DecodeDevice(const v1::Device& device);

// Without kind and what it computes in.
v1::Device EncodeDevice(const DeviceDescription& description);

}  // namespace medley
