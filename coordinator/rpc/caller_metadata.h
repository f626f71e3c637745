#pragma once

namespace medley {

// What the coordinator's web server sends with calls that it makes for others, over a channel inside the process: who they are. Names may
// have any bytes, which gRPC takes where a key ends so.
inline constexpr char kCallerMetadata[] = "medley-caller-bin";
// Beside it, if they showed a certificate: until when that is in force, in whole seconds since 1970.
inline constexpr char kCallerUntilMetadata[] = "medley-caller-until";
inline constexpr char kInProcessPeer[] = "inproc";

}  // namespace medley
