#include "coordinator/cli/watch.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "coordinator/cli/progress.h"
#include "coordinator/cli/views.h"
#include "runtime/base/clock.h"

namespace medley {
namespace {

constexpr absl::Duration kPatience = absl::Minutes(1);
constexpr absl::Duration kBetweenTries = absl::Milliseconds(500);

sigset_t Interrupts() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  return signals;
}

// Cancels a call when the user has had enough.
class Interrupter {
 public:
  explicit Interrupter(CallHandle& handle) : thread_([this, &handle] { Run(handle); }) {}
  ~Interrupter() {
    stop_ = true;
    thread_.join();
  }
  bool interrupted() const { return interrupted_; }

 private:
  void Run(CallHandle& handle) {
    const sigset_t signals = Interrupts();
    const timespec tick{0, 50'000'000};
    while (!stop_) {
      if (sigtimedwait(&signals, nullptr, &tick) <= 0) continue;
      interrupted_ = true;
      handle.Cancel();
    }
  }

  std::atomic<bool> stop_ = false, interrupted_ = false;
  std::thread thread_;
};

int TerminalColumns() {
  winsize size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

// Lines on a terminal that take the place of those before.
class LiveDisplay {
 public:
  void Draw(const std::vector<std::string>& lines) {
    std::string text;
    if (drawn_ > 0) absl::StrAppend(&text, "\x1b[", drawn_, "A\r");
    // Cleared to the end of the screen first: there may be fewer lines than before.
    absl::StrAppend(&text, "\x1b[J");
    for (const std::string& line : lines) absl::StrAppend(&text, line, "\n");
    std::fputs(text.c_str(), stdout);
    std::fflush(stdout);
    drawn_ = lines.size();
  }

 private:
  size_t drawn_ = 0;
};

class Printer {
 public:
  explicit Printer(Output output) : output_(output), terminal_(isatty(STDOUT_FILENO) == 1) {}

  void Show(const v1::JobUpdate& update) {
    progress_.Add(update);
    if (output_ == Output::kJson) {
      std::fputs(JsonLine(update).c_str(), stdout);
    } else if (terminal_) {
      display_.Draw(LiveLines(progress_, TerminalColumns()));
    } else {
      const double now = absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch());
      for (const std::string& line : plain_.Lines(update, now)) std::printf("%s\n", line.c_str());
    }
    std::fflush(stdout);
  }

  const JobProgress& progress() const { return progress_; }

 private:
  const Output output_;
  const bool terminal_;
  JobProgress progress_;
  LiveDisplay display_;
  PlainProgress plain_;
};

bool IsWorthAnotherTry(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status);
}

}  // namespace

void BlockInterrupts() {
  const sigset_t signals = Interrupts();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

absl::StatusOr<v1::Job> WatchJob(CoordinatorClient& client, const std::string& job_id, Output output) {
  CallHandle handle;
  Interrupter interrupter(handle);
  Printer printer(output);
  absl::Time last_heard = absl::InfinitePast();  // nothing yet: the first failure is final
  while (true) {
    const absl::Status status =
        client.Watch(job_id, printer.progress().newest_step(), handle, [&](const auto& update) {
          last_heard = Now();
          printer.Show(update);
        });
    if (interrupter.interrupted()) {
      return absl::CancelledError(absl::StrCat("no longer watching; job ", job_id, " goes on (medley watch ",
                                               job_id, ", medley cancel ", job_id, ")"));
    }
    if (HasEnded(printer.progress().job().state())) return printer.progress().job();
    if (!status.ok() && (!IsWorthAnotherTry(status) || Now() - last_heard > kPatience)) return status;
    absl::SleepFor(kBetweenTries);
  }
}

}  // namespace medley
