#pragma once
#include <string>

#include "absl/time/time.h"

namespace medley {

// What all threads of this process are doing, for people: a paragraph a thread, with its name, its state and its calls, innermost first.
// Interrupts each thread for moments, also those that wait in the kernel. One that does not answer within `patience` (it is in an
// uninterruptible wait) says so. Calls wait for one another. Thread-safe.
std::string DescribeThreadStacks(absl::Duration patience);

}  // namespace medley
