#pragma once

namespace medley {

// A worker's life: takes one task from the agent on descriptor `channel_descriptor` (agent/channel), prepares
// it, runs it when told to, reports, and ends. Ends the process at once when the agent is gone or silent for
// too long (agent_watch.h). Returns the exit status: 0 done, 1 failed, 2 no task came.
int ServeOneTask(int channel_descriptor);

}  // namespace medley
