#pragma once

namespace medley {

// A worker's life: takes one task from the agent on descriptor `channel_descriptor` (agent/channel), prepares it, runs it when
// told to, reports, and ends. Ends the process at once when the agent is gone. Returns the exit status.
int ServeOneTask(int channel_descriptor);

}  // namespace medley
