#include "agent/supervisor/worker_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

constexpr size_t kLastLines = 8;
constexpr size_t kLongestLineBytes = 4096;
// Replies nobody reads are bounded by what a worker says in a step; log lines by this.
constexpr size_t kMostQueuedReplies = 10'000;
constexpr int kChannelDescriptor = 3;

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
  const pid_t pid = fork();
  if (pid == 0) {  // the child: only calls that are safe after a fork of a threaded process
    // No parent-death signal: it follows the forking thread, not the process. The end of the channel tells the child.
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);  // the agent's threads block the signals that its main thread waits for
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
    close(channel[0]);
    close(log[0]);
    return absl::UnavailableError(absl::StrCat("fork: ", std::strerror(fork_error)));
  }
  return std::unique_ptr<WorkerProcess>(new WorkerProcess(options, pid, channel[0], log[0]));
}

WorkerProcess::WorkerProcess(const Options& options, pid_t pid, int channel, int standard_error)
    : options_(options),
      pid_(pid),
      channel_(std::make_unique<MessageChannel>(channel)),
      standard_error_(standard_error),
      log_reader_([this] { ReadLog(); }),
      channel_reader_([this] { ReadChannel(); }) {}

WorkerProcess::~WorkerProcess() {
  Kill();
  channel_reader_.join();  // the channel and the log end with the child
  if (log_reader_.joinable()) log_reader_.join();
  close(standard_error_);
}

void WorkerProcess::Kill() {
  MutexLock lock(mutex_);
  if (!reaped_) kill(pid_, SIGKILL);
}

void WorkerProcess::ReadLog() {
  std::string pending;
  char buffer[4096];
  while (true) {
    const ssize_t n = read(standard_error_, buffer, sizeof(buffer));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    pending.append(buffer, n);
    for (size_t end; (end = pending.find('\n')) != std::string::npos || pending.size() > kLongestLineBytes;) {
      const std::string line = pending.substr(0, std::min(end, kLongestLineBytes));
      pending.erase(0, std::min(line.size() + (end <= kLongestLineBytes ? 1 : 0), pending.size()));
      {
        MutexLock lock(mutex_);
        last_lines_.push_back(line);
        if (last_lines_.size() > kLastLines) last_lines_.pop_front();
      }
      v1::WorkerReply reply;
      reply.mutable_event()->set_log(line);
      Push(std::move(reply));
    }
  }
}

void WorkerProcess::ReadChannel() {
  bool finished = false;
  while (true) {
    v1::WorkerReply reply;
    if (!channel_->Receive(reply, absl::InfiniteFuture()).ok()) break;
    finished = reply.has_failed() || reply.event().has_finished();
    if (finished && log_reader_.joinable()) {
      // The child ends now; what it logged stands before its end.
      log_reader_.join();
    }
    Push(std::move(reply));
    if (finished) break;
  }
  if (!finished) {
    kill(pid_, SIGKILL);  // it may have closed its channel and live on
    log_reader_.join();
  }
  const std::string end = DescribeEnd();
  if (!finished) {
    v1::WorkerReply reply;
    v1::Finished* last = reply.mutable_event()->mutable_finished();
    last->set_code(static_cast<uint32_t>(absl::StatusCode::kUnavailable));
    last->set_message(end);
    last->set_died(true);
    Push(std::move(reply));
  }
  MutexLock lock(mutex_);
  ended_ = true;
  changed_.NotifyAll();
}

// Reaps the child; how it ended, and its last lines.
std::string WorkerProcess::DescribeEnd() {
  siginfo_t ended;
  while (waitid(P_PID, pid_, &ended, WEXITED | WNOWAIT) < 0 && errno == EINTR) {
  }
  MutexLock lock(mutex_);
  int status = 0;
  waitpid(pid_, &status, 0);  // under the lock: Kill must not meet another process under this number
  reaped_ = true;
  std::string text = absl::StrCat("the worker of ", options_.name, " ");
  if (WIFSIGNALED(status)) {
    absl::StrAppend(&text, "was killed by signal ", WTERMSIG(status), " (", strsignal(WTERMSIG(status)), ")");
  } else {
    absl::StrAppend(&text, "ended with exit status ", WEXITSTATUS(status));
  }
  if (!last_lines_.empty()) absl::StrAppend(&text, "; its last words: ", absl::StrJoin(last_lines_, " | "));
  return text;
}

void WorkerProcess::Push(v1::WorkerReply reply) {
  MutexLock lock(mutex_);
  if (reply.event().has_log() && replies_.size() >= kMostQueuedReplies) return;
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
