#pragma once
#include "proto/medley/v1/job.pb.h"

// Where the time of a job goes. Every second since its submission is counted once: by its state, and while it runs by what it was at. What
// was counted is never taken back, so that figures made of it never fall.
namespace medley {

// The system's time, in Unix seconds, but that it never goes back within this process. Thread-safe.
double UnixSecondsNeverBack();

// The job, which is about to change its state, was in this one until now.
void EndState(v1::Job& job);
// It has come into its state.
void BeginState(v1::Job& job);

// Of the time that a running job has, up to `at_seconds` (Unix; 0: now): how much of it goes to something that took `seconds` and ended then.
// That is all of it, unless clocks of two machines differ, or it was heard of before. What lies before it was between such things.
double TakeTime(v1::Job& job, double seconds, double at_seconds);

}  // namespace medley
