#pragma once
#include <cstdint>

namespace medley {

// A process of this host (of this pid namespace), told from later ones with the same number by when it began.
struct ProcessIdentity {
  int32_t id = 0;
  uint64_t started_ticks = 0;  // since boot, as in /proc
  friend bool operator==(const ProcessIdentity&, const ProcessIdentity&) = default;
};

ProcessIdentity OwnProcess();

// Whether it is over, so that nothing of it touches memory any more: there is no such process, or it is a
// zombie. False where /proc cannot tell.
bool HasEnded(const ProcessIdentity& process);

}  // namespace medley
