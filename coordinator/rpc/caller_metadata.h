#pragma once

namespace medley {

// What the coordinator's web server sends with calls that it makes for others, over a channel inside the process: who they are. Names may
// have any bytes, which gRPC takes where a key ends so.
inline constexpr char kCallerMetadata[] = "medley-caller-bin";
inline constexpr char kInProcessPeer[] = "inproc";

}  // namespace medley
