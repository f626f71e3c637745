#pragma once
#include <csignal>

namespace medley {

// Has the process's `signals` wait until a thread takes them by sigwait and its like, whichever thread they come to. To be
// called before other threads are begun, which have them blocked like this one; those that a library has begun before main
// (OpenBLAS does) would end the process by them instead, so that such a thread passes on what comes to it, and
// blocks them from then on. Programs that are executed have these signals as they were, but for this thread's mask.
void KeepSignalsWaiting(const sigset_t& signals);

}  // namespace medley
