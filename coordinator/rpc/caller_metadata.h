#pragma once

namespace medley {

// What the coordinator's web server sends with calls that it makes for others, over a channel inside the process: who they are.
inline constexpr char kCallerMetadata[] = "medley-caller";
inline constexpr char kInProcessPeer[] = "inproc";

}  // namespace medley
