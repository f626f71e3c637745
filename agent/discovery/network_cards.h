#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace medley {

// 1 where all that workers send to other machines goes by one card, and 0 where that is not known: there are several, of which a
// link may use one or all, or none is seen (from within a container). `network_devices`: those that workers may use, as UCX names
// them; empty: any. Cards are those that are up, for RDMA where there are such, and `tcp` is false, and of networks else; `system` is
// where the kernel shows them.
int FindNetworkCards(const std::vector<std::string>& network_devices, bool tcp,
                     const std::filesystem::path& system = "/sys");

}  // namespace medley
