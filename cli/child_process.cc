#include "cli/child_process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "runtime/base/clock.h"

namespace medley {
namespace {

// In the child, between fork and exec: nothing that allocates.
[[noreturn]] void Become(char* const* arguments, int log, pid_t parent) {
  // The parent's handlers must not run here.
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) signal(number, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  // A group of its own: Ctrl-C reaches the parent alone, which stops its children in order.
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(1);  // it died before the line above
  dup2(log, STDOUT_FILENO);
  dup2(log, STDERR_FILENO);
  const int nothing = open("/dev/null", O_RDONLY);
  if (nothing >= 0) dup2(nothing, STDIN_FILENO);
  execv(arguments[0], arguments);
  _exit(127);
}

}  // namespace

absl::StatusOr<std::string> SiblingProgram(const std::string& program) {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::string path = (self.parent_path() / program).string();
  if (error || access(path.c_str(), X_OK) != 0) {
    return absl::NotFoundError(absl::StrCat(path, " is not there: ", program, " belongs beside medley"));
  }
  return path;
}

absl::StatusOr<ChildProcess> ChildProcess::Start(const Options& options) {
  std::vector<std::string> words = {options.program};
  words.insert(words.end(), options.arguments.begin(), options.arguments.end());
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);

  const int log = open(options.log_file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (log < 0)
    return absl::UnavailableError(absl::StrCat("cannot open ", options.log_file, ": ", strerror(errno)));
  const pid_t parent = getpid();
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all,
                  &before);  // nothing is delivered to the child until it has reset its handlers
  const pid_t pid = fork();
  if (pid == 0) Become(arguments.data(), log, parent);
  const int error = errno;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  close(log);
  if (pid < 0)
    return absl::UnavailableError(absl::StrCat("cannot start ", options.program, ": ", strerror(error)));
  return ChildProcess(options, pid);
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : options_(std::move(other.options_)),
      pid_(std::exchange(other.pid_, -1)),
      killed_(other.killed_),
      ended_(std::move(other.ended_)) {}

ChildProcess::~ChildProcess() {
  if (pid_ > 0 && !Ended()) Wait(absl::InfinitePast());
}

std::optional<std::string> ChildProcess::Ended() {
  if (ended_) return ended_;
  int status = 0;
  const pid_t reaped = waitpid(pid_, &status, WNOHANG);
  if (reaped == 0) return std::nullopt;
  if (reaped < 0) {
    ended_ = "is gone";
  } else if (WIFSIGNALED(status)) {
    ended_ =
        absl::StrCat("was killed by signal ", WTERMSIG(status), " (", strsignal(WTERMSIG(status)), ")",
                     WTERMSIG(status) == SIGKILL && !killed_ ? ", perhaps out of memory: dmesg says" : "");
  } else {
    ended_ = absl::StrCat("exited with ", WEXITSTATUS(status));
  }
  return ended_;
}

std::string ChildProcess::LastWords(int lines) const {
  std::ifstream log(options_.log_file);
  std::deque<std::string> last;
  for (std::string line; std::getline(log, line);) {
    last.push_back(line);
    if (last.size() > static_cast<size_t>(lines)) last.pop_front();
  }
  return absl::StrJoin(last, "\n");
}

void ChildProcess::Terminate() {
  if (!Ended()) kill(pid_, SIGTERM);
}

void ChildProcess::Wait(absl::Time deadline) {
  while (!Ended() && Now() < deadline) absl::SleepFor(absl::Milliseconds(10));
  if (Ended()) return;
  killed_ = true;
  kill(pid_, SIGKILL);
  while (!Ended()) absl::SleepFor(absl::Milliseconds(5));
}

}  // namespace medley
