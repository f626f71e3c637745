#pragma once
#include <string>

#include "absl/status/status.h"

namespace medley {

// The status of a failed system call on a file: "<action> <path>: <text of error_number>".
//
// Codes: NotFound (ENOENT, ENOTDIR), ResourceExhausted (no space, quota, the process's file size limit, file
// descriptors, memory), PermissionDenied (EACCES, EPERM, EROFS), AlreadyExists (EEXIST, ENOTEMPTY),
// Unavailable for everything else: also for EIO, which a file server that is away gives as well as a broken
// disk, so that nothing is taken for damaged that may be whole. Safe from any thread.
absl::Status FileError(int error_number, const std::string& action, const std::string& path);

}  // namespace medley
