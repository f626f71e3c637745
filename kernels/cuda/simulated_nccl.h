#pragma once
#include "kernels/cuda/nccl_library.h"

// NCCL in its own place for tests, over the simulated driver (simulated_driver.h): its communicators are of
// this process, and its exchanges wait in their streams until all members' have come to them. Any thread.
namespace medley::simulated {

// Forgets everything, communicators too.
const NcclLibrary& StartNccl();

// Member `member` of each group joined from now on fails: when it joins, or when it has been given an exchange.
void FailJoining(int member);
void FailSums(int member);
// It is given exchanges and never gets to them, as if it hung; nobody is told.
void HangSums(int member);

// Communicators that were not aborted, and that were.
int LiveCommunicators();
int AbortedCommunicators();

// What members have been asked for, each of them counted.
struct SubmittedCalls {
  int all_reduces = 0, all_gathers = 0, reduce_scatters = 0, broadcasts = 0, reduces = 0;
};
SubmittedCalls Submitted();

}  // namespace medley::simulated
