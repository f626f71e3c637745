#include "comm/conformance/peer_process.h"

#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "comm/probe/measure_link.h"
#include "runtime/base/clock.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

// Addresses cross a socket pair, one datagram each.
constexpr absl::Duration kPatience = absl::Seconds(20);

absl::StatusOr<std::unique_ptr<UcxTransport>> ConnectOver(int descriptor, UcxTransport::Links links,
                                                          int rank) {
  UcxTransport::Options options;
  options.attempt = static_cast<uint64_t>(1) << 40;
  options.rank = rank;
  options.size = 2;
  options.links = links;
  ASSIGN_OR_RETURN(std::unique_ptr<UcxTransport> transport, UcxTransport::Create(options));
  const std::string& own = transport->address();
  if (send(descriptor, own.data(), own.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(own.size())) {
    return absl::UnavailableError("the other process took no address");
  }
  std::string other(64 << 10, '\0');
  const ssize_t length = recv(descriptor, other.data(), other.size(), 0);
  if (length <= 0) return absl::UnavailableError("the other process gave no address");
  other.resize(static_cast<size_t>(length));
  std::vector<std::string> addresses(2);
  addresses[1 - rank] = other;
  RETURN_IF_ERROR(transport->Connect(addresses, Now() + kPatience));
  return transport;
}

absl::Status Echo(UcxTransport& transport) {
  while (true) {
    uint64_t size = 0;
    const MessageTag announce{MessageTag::Kind::kProbe, 0, 0}, content{MessageTag::Kind::kProbe, 0, 1};
    ASSIGN_OR_RETURN(auto coming,
                     transport.Receive(0, announce, {reinterpret_cast<std::byte*>(&size), sizeof(size)}));
    RETURN_IF_ERROR(coming->Wait(Now() + kPatience));
    std::vector<std::byte> bytes(size);
    ASSIGN_OR_RETURN(auto receive, transport.Receive(0, content, absl::MakeSpan(bytes)));
    RETURN_IF_ERROR(receive->Wait(Now() + kPatience));
    ASSIGN_OR_RETURN(auto back, transport.Send(0, content, bytes));
    RETURN_IF_ERROR(back->Wait(Now() + kPatience));
    if (size == 0) return absl::OkStatus();
  }
}

absl::Status RunTask(UcxTransport& transport, PeerProcess::Task task) {
  switch (task) {
    case PeerProcess::Task::kEcho:
      return Echo(transport);
    case PeerProcess::Task::kFollow:
      return MeasureLink(transport, 0, ProbeRole::kFollower, Now() + kPatience).status();
    case PeerProcess::Task::kStall:
      while (true) pause();
  }
  return absl::InternalError("no such task");
}

}  // namespace

absl::StatusOr<std::unique_ptr<PeerProcess>> PeerProcess::Start(UcxTransport::Links links, Task task) {
  std::unique_ptr<PeerProcess> peer(new PeerProcess);
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
    return absl::UnavailableError("no socket pair");
  peer->descriptor_ = pair[0];
  const std::filesystem::path program =
      std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path() / "conformance" /
      "ucx_peer";
  std::vector<std::string> arguments = {program.string(), absl::StrCat(static_cast<int>(links)),
                                        absl::StrCat(static_cast<int>(task))};
  std::vector<char*> raw;
  for (std::string& argument : arguments) raw.push_back(argument.data());
  raw.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, pair[1], STDIN_FILENO);
  const int error = posix_spawn(&peer->process_, program.c_str(), &actions, nullptr, raw.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(pair[1]);
  if (error != 0) return absl::UnavailableError(absl::StrCat("cannot start ", program.string()));
  ASSIGN_OR_RETURN(peer->transport_, ConnectOver(peer->descriptor_, links, /*rank=*/0));
  return peer;
}

PeerProcess::~PeerProcess() {
  Kill();
  AwaitExit();
  if (descriptor_ >= 0) close(descriptor_);
}

void PeerProcess::Kill() {
  if (process_ > 0) kill(process_, SIGKILL);
}

int PeerProcess::AwaitExit() {
  if (process_ <= 0) return 0;
  int status = 0;
  waitpid(std::exchange(process_, -1), &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int PeerProcess::RunPeer(const std::vector<std::string>& arguments) {
  int links = 0, task = 0;
  if (arguments.size() != 3 || !absl::SimpleAtoi(arguments[1], &links) ||
      !absl::SimpleAtoi(arguments[2], &task)) {
    return 2;
  }
  const auto run = [&]() -> absl::Status {
    ASSIGN_OR_RETURN(const std::unique_ptr<UcxTransport> transport,
                     ConnectOver(STDIN_FILENO, static_cast<UcxTransport::Links>(links), /*rank=*/1));
    RETURN_IF_ERROR(RunTask(*transport, static_cast<Task>(task)));
    return transport->Close(Now() + kPatience);
  };
  const absl::Status status = run();
  if (!status.ok()) std::fprintf(stderr, "ucx_peer: %s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}

}  // namespace medley
