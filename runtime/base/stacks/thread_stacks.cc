#include "runtime/base/stacks/thread_stacks.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <vector>

#include "absl/debugging/symbolize.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "runtime/base/clock.h"
#include "runtime/base/first_line.h"
#include "runtime/base/mutex.h"

namespace medley {
namespace {

constexpr int kMostCalls = 64;
constexpr int kHandlersOwnCalls = 2;  // the handler's, and the one by which the kernel entered it
// Nothing else of this process uses it.
int Signal() { return SIGRTMIN + 3; }

// Of the one thread that is asked at a time. A thread that answers late finds another's number here, and says nothing.
struct Answer {
  std::atomic<pid_t> asked{0};
  std::atomic<bool> given{false};
  std::array<void*, kMostCalls> calls;
  int count = 0;
};
Answer& TheAnswer() {
  static auto& answer = *new Answer;
  return answer;
}

void GiveAnswer(int) {
  const int error = errno;
  Answer& answer = TheAnswer();
  pid_t own = static_cast<pid_t>(syscall(SYS_gettid));
  if (answer.asked.compare_exchange_strong(own, 0)) {
    answer.count = backtrace(answer.calls.data(), kMostCalls);
    answer.given.store(true, std::memory_order_release);
  }
  errno = error;
}

void Install() {
  // The first call loads a library, which a handler must not.
  std::array<void*, 1> none;
  backtrace(none.data(), 1);
  absl::InitializeSymbolizer("/proc/self/exe");
  struct sigaction action = {};
  action.sa_handler = GiveAnswer;
  action.sa_flags = SA_RESTART;
  sigaction(Signal(), &action, nullptr);
}

std::string DescribeCall(void* address) {
  std::array<char, 512> name;
  // Calls return behind themselves.
  char* const at = static_cast<char*>(address) - 1;
  std::string where = absl::Symbolize(at, name.data(), name.size()) ? name.data() : "";
  Dl_info library;
  if (dladdr(at, &library) != 0 && library.dli_fname != nullptr) {
    const std::string file = std::filesystem::path(library.dli_fname).filename();
    if (where.empty() || file.find(".so") != std::string::npos) absl::StrAppend(&where, " [", file, "]");
  }
  return absl::StrFormat("  %p %s\n", address, absl::StripAsciiWhitespace(where));
}

// "S" of "17 (name) S 1 ...".
std::string StateOf(const std::string& folder) {
  const std::string line = FirstLine(folder + "/stat");
  const size_t end = line.rfind(") ");
  const char state = end == std::string::npos || end + 2 >= line.size() ? '?' : line[end + 2];
  return state == 'R'   ? "runs"
         : state == 'S' ? "waits"
         : state == 'D' ? "waits for a disk or a driver, uninterruptibly"
                        : std::string("state ") + state;
}

std::string DescribeThread(pid_t thread, absl::Duration patience) {
  const std::string folder = absl::StrCat("/proc/self/task/", thread);
  std::string text =
      absl::StrCat("thread ", thread, " \"", FirstLine(folder + "/comm"), "\": ", StateOf(folder), "\n");
  Answer& answer = TheAnswer();
  answer.given = false;
  answer.asked = thread;
  if (syscall(SYS_tgkill, getpid(), thread, Signal()) != 0) {
    answer.asked = 0;
    return "";  // it has ended
  }
  const absl::Time end = Now() + patience;
  while (!answer.given.load(std::memory_order_acquire)) {
    // One that is about to end blocks all signals, and takes this one with it.
    const bool has_ended = syscall(SYS_tgkill, getpid(), thread, 0) != 0;
    pid_t still = thread;
    // Once the number is taken back, the thread cannot begin to answer any more.
    if ((has_ended || Now() > end) && answer.asked.compare_exchange_strong(still, 0))
      return has_ended ? "" : absl::StrCat(text, "  does not answer\n");
    absl::SleepFor(absl::Microseconds(100));
  }
  for (int i = std::min(kHandlersOwnCalls, answer.count); i < answer.count; ++i) {
    absl::StrAppend(&text, DescribeCall(answer.calls[i]));
  }
  return text;
}

}  // namespace

std::string DescribeThreadStacks(absl::Duration patience) {
  static auto& mutex = *new Mutex;
  const MutexLock lock(mutex);
  [[maybe_unused]] static const bool installed = (Install(), true);
  std::vector<pid_t> threads;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task", error)) {
    int thread = 0;
    if (absl::SimpleAtoi(entry.path().filename().string(), &thread)) threads.push_back(thread);
  }
  std::sort(threads.begin(), threads.end());
  std::string text;
  for (const pid_t thread : threads) {
    const std::string described = DescribeThread(thread, patience);
    if (!described.empty()) absl::StrAppend(&text, text.empty() ? "" : "\n", described);
  }
  return text;
}

}  // namespace medley
