#pragma once
#include <string>

namespace medley {

// Equal for two processes exactly when they may share memory: the same boot of the same machine, the same
// network, IPC and process namespaces, the same /dev/shm and user. Two containers or network namespaces of
// one machine differ. For comparing only; at most 512 bytes. Reads /proc; does not fail: what cannot be read
// counts as "?".
std::string HostIdentity();

}  // namespace medley
