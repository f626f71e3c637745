// A worker for tests: speaks the channel on descriptor 3 and does what the task id says, "die silently/1" for
// instance. Asked for its kernels, it does what the device's variant says.
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <string>

#include "absl/time/clock.h"
#include "agent/channel/message_channel.h"
#include "proto/medley/v1/agent.pb.h"

namespace {

using medley::v1::WorkerCommand;
using medley::v1::WorkerReply;

int Finish(medley::MessageChannel& channel, uint32_t code, const std::string& message) {
  WorkerReply reply;
  reply.mutable_event()->mutable_finished()->set_code(code);
  reply.mutable_event()->mutable_finished()->set_message(message);
  (void)channel.Send(reply);
  return code == 0 ? 0 : 1;
}

// The next command that is no ping; pings are answered, as long as `works` with growing progress. False: the
// agent is gone.
bool Next(medley::MessageChannel& channel, WorkerCommand& command, bool works = true) {
  static uint64_t progress = 0;
  while (channel.Receive(command, absl::InfiniteFuture()).ok()) {
    WorkerReply reply;
    if (command.has_describe_stacks()) {
      reply.set_stacks("thread 1");
      if (works) (void)channel.Send(reply);
      continue;
    }
    if (command.has_trace()) {
      reply.mutable_trace()->set_number(command.trace().number());
      reply.mutable_trace()->mutable_answer()->set_current_step(5);
      reply.mutable_trace()->mutable_answer()->set_accepted(command.trace().steps() > 0 &&
                                                            command.trace().first_step() > 5);
      if (works) (void)channel.Send(reply);
      continue;
    }
    if (!command.has_ping()) return true;
    reply.mutable_pong()->set_progress(works ? ++progress : progress);
    reply.mutable_pong()->set_activity("reading segment 3");
    reply.mutable_pong()->set_allocated_bytes(12345);
    (void)channel.Send(reply);
  }
  return false;
}

// Ends with the agent, as a real worker does, or when it is asked to.
int Hang(medley::MessageChannel& channel, bool works = true) {
  WorkerCommand command;
  while (Next(channel, command, works)) {
    if (!command.has_finish_early()) continue;
    WorkerReply reply;
    reply.mutable_event()->mutable_finished()->set_stopped(true);
    reply.mutable_event()->mutable_finished()->set_stopped_at_step(7);
    (void)channel.Send(reply);
    return 0;
  }
  return 3;
}

// Leaves a process behind that holds all descriptors of this one open, for five minutes unless the agent is gone before. `talks`: it
// writes into this one's log all the time.
void LeaveHelperBehind(bool talks = false) {
  const pid_t agent = getppid();
  if (fork() != 0) return;
  const char line[] = "the helper talks\n";
  while (talks && write(STDERR_FILENO, line, sizeof(line) - 1) > 0) continue;
  for (int i = 0; i < 3000 && kill(agent, 0) == 0; ++i) usleep(100'000);
  _exit(0);
}

int Prepare(medley::MessageChannel& channel, const medley::v1::PrepareWorker& prepare,
            const std::string& act) {
  if (act == "die silently") _exit(7);
  if (act == "die with last words") {
    std::fprintf(stderr, "loading the model\nthe driver is on fire\n");
    std::raise(SIGKILL);
  }
  if (act == "hang in prepare") return Hang(channel);
  if (act == "do nothing in prepare") return Hang(channel, /*works=*/false);
  if (act == "speak Latin-1") {
    std::fprintf(stderr, "caf\xe9 \xff\n");
    std::raise(SIGKILL);
  }
  WorkerReply reply;
  if (act == "fail to prepare") {
    reply.mutable_failed()->set_code(8);
    reply.mutable_failed()->set_message("blocks 0-3 need 4 GiB");
    (void)channel.Send(reply);
    return 1;
  }
  if (act == "close the channel") {
    close(3);
    pause();  // lives on without a channel
  }
  if (act == "send nonsense") {
    const char claim[] = "\xff\xff\xff\xff";  // of the bytes that follow
    (void)!write(3, claim, sizeof(claim) - 1);
    pause();
  }
  reply.mutable_prepared()->set_data_plane_address("address of process " + std::to_string(getpid()));
  reply.mutable_prepared()->set_allocated_bytes(prepare.device().memory_bytes());
  (void)channel.Send(reply);
  return -1;
}

int Run(medley::MessageChannel& channel, const WorkerCommand& start, const std::string& act) {
  if (act == "hang") return Hang(channel);
  if (act == "do nothing") return Hang(channel, /*works=*/false);
  if (act == "leave a helper and finish") {
    LeaveHelperBehind();
    return Finish(channel, 0, "");
  }
  if (act == "leave a helper and die") {
    LeaveHelperBehind();
    std::raise(SIGKILL);
  }
  if (act == "leave a helper that talks and die") {
    LeaveHelperBehind(/*talks=*/true);
    std::raise(SIGKILL);
  }
  if (act == "refuse") return Finish(channel, 3, "the loss is not finite");
  if (act == "crash") std::abort();
  if (act == "talk") {
    for (int i = 0; i < 20'000; ++i) std::fprintf(stderr, "line %d\n", i);
    std::fprintf(stderr, "%s\n", std::string(10'000, 'x').c_str());
  }
  WorkerReply reply;
  for (const std::string& address : start.start().data_plane_addresses())
    reply.mutable_event()->set_log(address);
  reply.mutable_event()->mutable_step()->set_step(
      static_cast<uint32_t>(start.start().data_plane_addresses_size()));
  (void)channel.Send(reply);
  std::fprintf(stderr, "nearly done\n");
  return Finish(channel, 0, "");
}

int DescribeKernels(medley::MessageChannel& channel, const medley::v1::Device& device) {
  if (device.variant() == "die") {
    std::fprintf(stderr, "the driver is on fire\n");
    std::raise(SIGKILL);
  }
  if (device.variant() == "hang") return Hang(channel);
  WorkerReply reply;
  if (device.variant() == "fail to open") {
    reply.mutable_failed()->set_code(14);
    reply.mutable_failed()->set_message("no such accelerator");
  } else {
    std::fprintf(stderr, "asking\n");
    reply.mutable_kernels()->set_description("process " + std::to_string(getpid()));
    if (device.variant() == "break off")
      reply.mutable_kernels()->set_failure("Matmul: the driver is on fire");
  }
  (void)channel.Send(reply);
  return 0;
}

}  // namespace

int main() {
  medley::MessageChannel channel(3);
  WorkerCommand command;
  if (!channel.Receive(command, absl::InfiniteFuture()).ok()) return 2;
  if (command.has_describe_kernels()) return DescribeKernels(channel, command.describe_kernels());
  const medley::v1::PrepareWorker prepare = command.prepare();
  const std::string& id = prepare.request().task_id();
  const std::string act = id.substr(0, id.find('/'));
  if (const int status = Prepare(channel, prepare, act); status >= 0) return status;
  if (!Next(channel, command)) return 3;
  return Run(channel, command, act);
}
