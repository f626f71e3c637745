#include "cli/waiting_line.h"

#include <unistd.h>

#include <cstdio>

#include "cli/number_format.h"
#include "runtime/base/clock.h"

namespace medley {

WaitingLine::WaitingLine(const std::string& what)
    : what_(what), terminal_(isatty(STDERR_FILENO) == 1), begin_(Now()) {}

WaitingLine::~WaitingLine() {
  if (shown_seconds_ > 0) std::fputs("\r\x1b[K", stderr);
}

void WaitingLine::Tick() {
  const int64_t seconds = absl::ToInt64Seconds(Now() - begin_);
  if (!terminal_ || seconds <= shown_seconds_) return;
  shown_seconds_ = seconds;
  std::fprintf(stderr, "\r\x1b[K%s ... %s", what_.c_str(),
               FormatDuration(static_cast<double>(seconds)).c_str());
  std::fflush(stderr);
}

}  // namespace medley
