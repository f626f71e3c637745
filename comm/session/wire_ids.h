#pragma once
#include <cstdint>

#include "comm/session/session_address.h"

namespace medley {

// What epoll tells of: the descriptor to wake the thread with, the listeners, the connections.
inline constexpr uint64_t kWakeId = 0;
inline constexpr uint64_t kFirstListener = 1;
inline constexpr uint64_t kFirstWire = kFirstListener + kMaximumEndpoints;

}  // namespace medley
