#pragma once
#include <cstdint>
#include <string>

#include "absl/status/status.h"

// Whatever has a descriptor: files, sockets, timers. Systems give processes 1024 of them unless they ask for more.
namespace medley {

// Raises this process's limit to the highest that it may set itself (the hard limit), which the processes that it starts
// inherit. Called by every daemon at its start; where the system refuses, the limit stays what it was.
void RaiseOpenFilesLimit();

// Whether `more` can be opened beside those that are open now and some for what comes and goes. FailedPrecondition, with
// `what` they are for, their number, the limit, and how to raise it.
absl::Status CheckOpenFilesFor(int64_t more, const std::string& what);

}  // namespace medley
