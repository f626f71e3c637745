#include "comm/session/test_child.h"

#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <utility>

namespace medley {

std::unique_ptr<TestChild> TestChild::Start(const std::string& test_case) {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) return nullptr;
  std::string program = "/proc/self/exe", name = test_case;
  char* arguments[] = {program.data(), name.data(), nullptr};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, pair[1], kOfChild);
  pid_t process = -1;
  const int error = posix_spawn(&process, program.c_str(), &actions, nullptr, arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  close(pair[1]);
  if (error != 0) {
    close(pair[0]);
    return nullptr;
  }
  return std::unique_ptr<TestChild>(new TestChild(process, pair[0]));
}

TestChild::~TestChild() {
  Signal(SIGKILL);
  AwaitEnd();
  close(descriptor_);
}

void TestChild::Signal(int signal) const {
  if (process_ > 0) kill(process_, signal);
}

int TestChild::AwaitEnd() {
  if (process_ <= 0) return 0;
  int status = 0;
  waitpid(std::exchange(process_, -1), &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void TestChild::Send(int descriptor, const std::string& message) {
  (void)!send(descriptor, message.data(), message.size(), MSG_NOSIGNAL);
}

std::string TestChild::Receive(int descriptor) {
  pollfd waiting = {descriptor, POLLIN, 0};
  std::string message(64 << 10, '\0');
  const ssize_t length =
      poll(&waiting, 1, 20000) == 1 ? recv(descriptor, message.data(), message.size(), 0) : 0;
  message.resize(length > 0 ? static_cast<size_t>(length) : 0);
  return message;
}

}  // namespace medley
