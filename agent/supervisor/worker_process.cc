#include "agent/supervisor/worker_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "runtime/base/clock.h"
#include "runtime/base/status_macros.h"
#include "runtime/base/valid_utf8.h"

namespace medley {
namespace {

constexpr size_t kLastLines = 8;
constexpr size_t kLongestLineBytes = 4096;
constexpr int kSayLeftOutEveryMs = 1000;
// Replies nobody reads are bounded by what a worker says in a step; log lines by this.
constexpr size_t kMostQueuedReplies = 10'000;
constexpr int kChannelDescriptor = 3;
// A process that says that it ends, or closes its channel because it does, has ended within so long.
constexpr absl::Duration kExitTime = absl::Seconds(2);

}  // namespace

absl::StatusOr<std::unique_ptr<WorkerProcess>> WorkerProcess::Start(const Options& options) {
  int channel[2], log[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, channel) != 0) {
    return absl::UnavailableError(absl::StrCat("socketpair: ", std::strerror(errno)));
  }
  if (pipe2(log, O_CLOEXEC) != 0) {
    close(channel[0]);
    close(channel[1]);
    return absl::UnavailableError(absl::StrCat("pipe: ", std::strerror(errno)));
  }
  const int stop_log = eventfd(0, EFD_CLOEXEC);
  if (stop_log < 0) {
    for (const int descriptor : {channel[0], channel[1], log[0], log[1]}) close(descriptor);
    return absl::UnavailableError(absl::StrCat("eventfd: ", std::strerror(errno)));
  }
  const pid_t pid = fork();
  if (pid == 0) {  // the child: only calls that are safe after a fork of a threaded process
    // No parent-death signal: it follows the forking thread, not the process. The end of the channel tells
    // the child.
    sigset_t none;
    sigemptyset(&none);
    // The agent's threads block the signals that its main thread waits for.
    sigprocmask(SIG_SETMASK, &none, nullptr);
    const int kept = fcntl(channel[1], F_DUPFD, 10);  // out of the way of the descriptors below
    dup2(log[1], STDOUT_FILENO);
    dup2(log[1], STDERR_FILENO);
    dup2(kept, kChannelDescriptor);
    close(kept);
    const char* const arguments[] = {options.program.c_str(), "run", nullptr};
    execv(options.program.c_str(), const_cast<char* const*>(arguments));
    const char message[] = "cannot execute medley-worker\n";
    (void)!write(STDERR_FILENO, message, sizeof(message) - 1);
    _exit(127);
  }
  const int fork_error = errno;
  close(channel[1]);
  close(log[1]);
  if (pid < 0) {
    for (const int descriptor : {channel[0], log[0], stop_log}) close(descriptor);
    return absl::UnavailableError(absl::StrCat("fork: ", std::strerror(fork_error)));
  }
  return std::unique_ptr<WorkerProcess>(new WorkerProcess(options, pid, channel[0], log[0], stop_log));
}

WorkerProcess::WorkerProcess(const Options& options, pid_t pid, int channel, int standard_error, int stop_log)
    : options_(options),
      pid_(pid),
      channel_(std::make_unique<MessageChannel>(channel)),
      standard_error_(standard_error),
      stop_log_(stop_log),
      log_reader_([this] { ReadLog(); }),
      reaper_([this] { AwaitExit(); }),
      channel_reader_([this] { ReadChannel(); }) {}

WorkerProcess::~WorkerProcess() {
  Kill();
  channel_reader_.join();  // the channel and the log end with the child
  reaper_.join();
  log_reader_.join();
  close(standard_error_);
  close(stop_log_);
}

void WorkerProcess::Kill(const std::string& why) {
  MutexLock lock(mutex_);
  if (gone_) return;
  if (killed_because_.empty()) killed_because_ = why;
  kill(pid_, SIGKILL);
}

bool WorkerProcess::AwaitGone(absl::Time deadline) {
  MutexLock lock(mutex_);
  return changed_.WaitUntil(mutex_, deadline, [&] { return gone_; });
}

void WorkerProcess::AddLine(std::string line) {
  line = ValidUtf8(line);
  {
    MutexLock lock(mutex_);
    last_lines_.push_back(line);
    if (last_lines_.size() > kLastLines) last_lines_.pop_front();
    if (replies_.size() >= kMostQueuedReplies) return line_limit_.LeaveOut();
  }
  SayLeftOut(/*at_end=*/false);
  if (line_limit_.Admit(Now())) PushLine(std::move(line));
}

void WorkerProcess::SayLeftOut(bool at_end) {
  if (line_limit_.left_out() == 0 || (!at_end && !line_limit_.HasRoom(Now()))) return;
  const int64_t lines = line_limit_.TakeLeftOut();
  PushLine(absl::StrCat(lines, lines == 1 ? " line of this worker was" : " lines of this worker were",
                        " left out here: ", kLinesAtOnce, " at once and then ", kLinesPerSecond,
                        " a second are passed on"));
}

void WorkerProcess::PushLine(std::string line) {
  v1::WorkerReply reply;
  reply.mutable_event()->set_log(std::move(line));
  Push(std::move(reply));
}

void WorkerProcess::ReadLog() {
  std::string pending;
  char buffer[4096];
  // Once the child is gone: of what it wrote. All of that is in the pipe by then, however long this thread has to wait for its turn;
  // others that hold the pipe may write for ever.
  std::optional<size_t> left;
  while (left != size_t{0}) {
    if (!left) {
      pollfd waits[] = {{.fd = standard_error_, .events = POLLIN, .revents = 0},
                        {.fd = stop_log_, .events = POLLIN, .revents = 0}};
      const int wait_ms = line_limit_.left_out() > 0 ? kSayLeftOutEveryMs : -1;
      if (poll(waits, 2, wait_ms) < 0 && errno != EINTR) break;
      SayLeftOut(/*at_end=*/false);
      if (waits[1].revents != 0) {
        int bytes = 0;
        if (ioctl(standard_error_, FIONREAD, &bytes) != 0) break;
        left = static_cast<size_t>(bytes);
        continue;
      }
      if (waits[0].revents == 0) continue;
    }
    const ssize_t n = read(standard_error_, buffer, std::min(sizeof(buffer), left.value_or(sizeof(buffer))));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    if (left) *left -= static_cast<size_t>(n);
    pending.append(buffer, n);
    for (size_t end; (end = pending.find('\n')) != std::string::npos || pending.size() > kLongestLineBytes;) {
      const bool whole = end <= kLongestLineBytes;
      const std::string line(whole ? absl::string_view(pending).substr(0, end)
                                   : CutUtf8(pending, kLongestLineBytes));
      pending.erase(0, line.size() + (whole ? 1 : 0));
      AddLine(line);
    }
  }
  if (!pending.empty()) AddLine(pending);
  SayLeftOut(/*at_end=*/true);
  MutexLock lock(mutex_);
  log_ended_ = true;
  changed_.NotifyAll();
}

// Reaps the child, whoever holds its descriptors.
void WorkerProcess::AwaitExit() {
  siginfo_t info;
  int waited;
  while ((waited = waitid(P_PID, pid_, &info, WEXITED | WNOWAIT)) < 0 && errno == EINTR) {
  }
  {
    MutexLock lock(mutex_);
    int status = 0;
    // Under the lock: Kill must not meet another process under this number.
    const bool reaped = waited == 0 && waitpid(pid_, &status, 0) == pid_;
    gone_ = true;
    if (!reaped) {
      end_ = "ended, and how cannot be told";  // somebody else reaped it
    } else if (WIFSIGNALED(status)) {
      end_ = absl::StrCat("was killed by signal ", WTERMSIG(status), " (", strsignal(WTERMSIG(status)), ")");
    } else {
      end_ = absl::StrCat("ended with exit status ", WEXITSTATUS(status));
    }
    if (!killed_because_.empty()) {
      absl::StrAppend(&end_, " by its agent: ", killed_because_);
    } else if (reaped && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) {
      absl::StrAppend(&end_, ", perhaps out of memory: dmesg on its node says");
    }
    changed_.NotifyAll();
  }
  channel_->StopReceiving();  // others may hold its other end
  const uint64_t one = 1;
  (void)!write(stop_log_, &one, sizeof(one));
}

// Until all that the child wrote has been read, unless it lives on.
void WorkerProcess::AwaitLogEnd() {
  MutexLock lock(mutex_);
  changed_.WaitUntil(mutex_, Now() + kExitTime, [&] { return log_ended_ || gone_; });
  if (gone_) changed_.WaitUntil(mutex_, absl::InfiniteFuture(), [&] { return log_ended_; });
}

void WorkerProcess::ReadChannel() {
  bool finished = false;
  absl::Status received;
  while (!finished) {
    v1::WorkerReply reply;
    received = channel_->Receive(reply, absl::InfiniteFuture());
    if (!received.ok()) break;
    finished = reply.has_failed() || reply.event().has_finished();
    if (finished) AwaitLogEnd();  // the child ends now; what it logged stands before its end
    Push(std::move(reply));
  }
  if (!finished) {
    // Most often it is about to end by itself, and how is worth knowing; but it may live on without its channel.
    if (absl::IsUnavailable(received)) AwaitGone(Now() + kExitTime);
    Kill(absl::StrCat("its channel could not be read: ", received.message()));
    AwaitGone(absl::InfiniteFuture());
    AwaitLogEnd();
    v1::WorkerReply reply;
    v1::Finished* last = reply.mutable_event()->mutable_finished();
    last->set_code(static_cast<uint32_t>(absl::StatusCode::kUnavailable));
    last->set_message(DescribeEnd());
    last->set_died(true);
    Push(std::move(reply));
  }
  MutexLock lock(mutex_);
  ended_ = true;
  changed_.NotifyAll();
}

// How the child ended, and its last lines.
std::string WorkerProcess::DescribeEnd() {
  MutexLock lock(mutex_);
  std::string text = absl::StrCat("the worker of ", options_.name, " ", end_);
  if (!last_lines_.empty()) absl::StrAppend(&text, "; its last words: ", absl::StrJoin(last_lines_, " | "));
  return text;
}

void WorkerProcess::Push(v1::WorkerReply reply) {
  MutexLock lock(mutex_);
  replies_.push_back(std::move(reply));
  changed_.NotifyAll();
}

absl::StatusOr<v1::WorkerReply> WorkerProcess::Next(absl::Time deadline) {
  MutexLock lock(mutex_);
  changed_.WaitUntil(mutex_, deadline, [&] { return !replies_.empty() || ended_; });
  if (replies_.empty()) {
    if (ended_) return absl::UnavailableError("the worker has ended");
    return absl::DeadlineExceededError(absl::StrCat("the worker of ", options_.name, " said nothing"));
  }
  v1::WorkerReply reply = std::move(replies_.front());
  replies_.pop_front();
  return reply;
}

}  // namespace medley
