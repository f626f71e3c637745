#pragma once

namespace medley {

// Asks the kernel for short turns of the calling thread: one that computes little, but soon after it is woken, beside threads that
// compute all the time. It then runs on a core as much as before, but in turns of 0.1 ms, which begin the sooner; otherwise it waits for the
// end of another's turn of some milliseconds each time it has had a little more than its share. Linux from 6.12 on (EEVDF: Stoica and
// Abdel-Wahab 1995); needs no privilege. Threads that it starts have short turns, too.
//
// False: the kernel has refused, and nothing has changed. Older ones accept it and change nothing, either.
bool AskForShortTurns();

}  // namespace medley
