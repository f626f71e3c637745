#pragma once
#include "kernels/cuda/nccl_library.h"

// NCCL in its own place for tests, over the simulated driver (simulated_driver.h): its communicators are of
// this process, and its sums wait in their streams until all members' have come to them. Any thread.
namespace medley::simulated {

// Forgets everything, communicators too.
const NcclLibrary& StartNccl();

// Member `member` of each group joined from now on fails: when it joins, or when it has been given a sum.
void FailJoining(int member);
void FailSums(int member);
// It is given sums and never gets to them, as if it hung; nobody is told.
void HangSums(int member);

// Communicators that were not aborted, and that were.
int LiveCommunicators();
int AbortedCommunicators();

// Sums that members have been given.
int SubmittedSums();

}  // namespace medley::simulated
