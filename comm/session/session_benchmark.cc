// What it costs to be connected: processor time of an idle session, by the number of its peers.
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>

#include "absl/strings/numbers.h"
#include "comm/session/test_sessions.h"
#include "runtime/base/clock.h"

namespace medley {
namespace {

double ProcessorSeconds() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

int Run(int size, absl::Duration span) {
  const absl::Time begin = Now();
  auto sessions = TestSessions::Listen(size);
  for (const absl::Status& status : sessions.Connect()) {
    if (status.ok()) continue;
    std::fprintf(stderr, "%s\n", status.ToString().c_str());
    return 1;
  }
  const double connect_milliseconds = absl::ToDoubleMilliseconds(Now() - begin);
  absl::SleepFor(absl::Seconds(1));
  const double before = ProcessorSeconds();
  const absl::Time idle_begin = Now();
  absl::SleepFor(span);
  const double used = (ProcessorSeconds() - before) / absl::ToDoubleSeconds(Now() - idle_begin) / size;
  std::vector<double> microseconds;
  sessions.ranks[1]->OnQuestion([](int, const std::string& question) { return question; });
  for (int i = 0; i < 1000; ++i) {
    const absl::Time asked = Now();
    if (!sessions.ranks[0]->Ask(1, "?", Soon()).ok()) return 1;
    microseconds.push_back(absl::ToDoubleMicroseconds(Now() - asked));
  }
  std::sort(microseconds.begin(), microseconds.end());
  std::printf(
      "%d ranks in one process: connected in %.0f ms; each idle session takes %.4f %% of a core; "
      "a question takes %.0f us (median)\n",
      size, connect_milliseconds, 100 * used, microseconds[microseconds.size() / 2]);
  return 0;
}

}  // namespace
}  // namespace medley

int main(int argc, char** argv) {
  int size = 16;
  if (argc > 2 || (argc == 2 && (!absl::SimpleAtoi(argv[1], &size) || size < 2))) {
    std::fprintf(stderr, "usage: session_benchmark [ranks, at least 2]\n");
    return 2;
  }
  return medley::Run(size, absl::Seconds(4));
}
