#include "runtime/web/process_figures.h"

#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "absl/time/clock.h"
#include "runtime/base/version.h"

namespace medley {
namespace {

double SecondsOf(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

double OpenDescriptors() {
  std::error_code error;
  const std::filesystem::directory_iterator descriptors("/proc/self/fd", error);
  return error ? 0
               : static_cast<double>(std::distance(begin(descriptors), end(descriptors)) -
                                     1);  // less the one it looks with
}

double ResidentBytes() {
  double size = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> size >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE));
}

// Unix time. Of /proc/self/stat the 22nd word, ticks since the machine's start; the second, the program's name, is in parentheses.
double StartSeconds() {
  std::string text;
  std::getline(std::ifstream("/proc/self/stat"), text);
  std::istringstream words(text.substr(text.rfind(')') + 1));
  std::string word;
  for (int i = 3; i <= 22; ++i) words >> word;
  timespec up = {};
  clock_gettime(CLOCK_BOOTTIME, &up);
  const absl::Time boot = absl::Now() - absl::DurationFromTimespec(up);
  return absl::ToDoubleSeconds(boot - absl::UnixEpoch()) +
         std::strtod(word.c_str(), nullptr) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

}  // namespace

void AddProcessFigures(OpenMetrics& metrics) {
  using Type = OpenMetrics::Type;
  static const double start = StartSeconds();
  rusage used = {};
  getrusage(RUSAGE_SELF, &used);
  rlimit descriptors = {};
  getrlimit(RLIMIT_NOFILE, &descriptors);
  metrics.Family("medley_build", Type::kInfo, "The program.");
  metrics.Add({{"version", kMedleyVersion}}, 1);
  metrics.Single("process_cpu_seconds", Type::kCounter, "Processor time.",
                 SecondsOf(used.ru_utime) + SecondsOf(used.ru_stime));
  metrics.Single("process_resident_memory_bytes", Type::kGauge, "Memory in use.", ResidentBytes());
  metrics.Single("process_open_fds", Type::kGauge, "Descriptors in use.", OpenDescriptors());
  metrics.Single("process_max_fds", Type::kGauge, "Descriptors that there may be.",
                 static_cast<double>(descriptors.rlim_cur));
  metrics.Single("process_start_time_seconds", Type::kGauge, "When it started; Unix time.", start);
}

}  // namespace medley
