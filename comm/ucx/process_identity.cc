#include "comm/ucx/process_identity.h"

#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"

namespace medley {
namespace {

struct Stat {
  char state = '?';
  uint64_t started_ticks = 0;
};

bool ReadStat(int32_t id, Stat& stat) {
  std::ifstream file(absl::StrCat("/proc/", id, "/stat"));
  std::string line;
  if (!std::getline(file, line)) return false;
  // The second field, the program's name, may hold anything; it ends at the last parenthesis.
  const size_t end = line.rfind(')');
  if (end == std::string::npos) return false;
  std::istringstream rest(line.substr(end + 1));
  std::string skipped;
  rest >> stat.state;  // field 3
  for (int field = 4; field < 22; ++field) rest >> skipped;
  return static_cast<bool>(rest >> stat.started_ticks);  // field 22
}

}  // namespace

ProcessIdentity OwnProcess() {
  Stat stat;
  const int32_t id = getpid();
  ReadStat(id, stat);
  return {id, stat.started_ticks};
}

bool HasEnded(const ProcessIdentity& process) {
  if (process.id <= 0 || process.started_ticks == 0) return false;
  if (kill(process.id, 0) != 0) return errno == ESRCH;
  Stat stat;
  if (!ReadStat(process.id, stat)) return kill(process.id, 0) != 0 && errno == ESRCH;
  return stat.state == 'Z' || stat.state == 'X' || stat.started_ticks != process.started_ticks;
}

}  // namespace medley
