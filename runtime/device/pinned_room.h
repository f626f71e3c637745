#pragma once
#include <filesystem>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "runtime/base/bytes.h"
#include "runtime/device/copy_lane.h"

namespace medley {

// Whether the host has `need` of its memory available for what `lane` is to allocate (CopyLane::AllocatePinned). To be
// asked before any of it is: a process that takes more than there is gets killed without a word. What is not known, or
// takes no memory, refuses nothing. ResourceExhausted: it has not; "`what` need 2.0 GiB of it; the host has 1.0 GiB
// available". `root` as for AvailableHostMemory.
absl::Status CheckPinnedRoom(const CopyLane& lane, Bytes need, absl::string_view what,
                             const std::filesystem::path& root = "/");

}  // namespace medley
