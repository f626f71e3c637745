#include "agent/discovery/network_cards.h"

#include <set>
#include <system_error>

#include "runtime/base/first_line.h"

namespace medley {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> EntriesOf(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> entries;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
    entries.push_back(entry->path());
  return entries;
}

// The hardware behind an interface; empty: there is none, as of bridges and tunnels.
fs::path HardwareOf(const fs::path& interface) {
  std::error_code error;
  const fs::path device = fs::canonical(interface / "device", error);
  return error ? fs::path() : device;
}

// By their hardware: a card may be shown as several.
std::set<fs::path> RdmaCards(const fs::path& system) {
  std::set<fs::path> cards;
  for (const fs::path& card : EntriesOf(system / "class/infiniband")) {
    for (const fs::path& port : EntriesOf(card / "ports")) {
      // "4: ACTIVE"
      if (FirstLine(port / "state").rfind("4:", 0) == 0) cards.insert(HardwareOf(card) / port.filename());
    }
  }
  return cards;
}

std::set<fs::path> InterfaceCards(const fs::path& system) {
  std::set<fs::path> cards;
  for (const fs::path& interface : EntriesOf(system / "class/net")) {
    const fs::path hardware = HardwareOf(interface);
    if (!hardware.empty() && FirstLine(interface / "operstate") == "up") cards.insert(hardware);
  }
  return cards;
}

}  // namespace

int FindNetworkCards(const std::vector<std::string>& network_devices, bool tcp, const fs::path& system) {
  if (!network_devices.empty()) return network_devices.size() == 1 && network_devices[0] != "all" ? 1 : 0;
  std::set<fs::path> cards;
  if (!tcp) cards = RdmaCards(system);
  if (cards.empty()) cards = InterfaceCards(system);
  return cards.size() == 1 ? 1 : 0;
}

}  // namespace medley
