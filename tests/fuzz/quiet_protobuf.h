#pragma once
#include "google/protobuf/stubs/logging.h"

namespace medley {

// Protobuf prints every string that is no UTF-8; with random bytes that is most of them.
inline const bool kProtobufIsQuiet = (google::protobuf::SetLogHandler(nullptr), true);

}  // namespace medley
