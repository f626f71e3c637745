#include "agent/worker/serve.h"

#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>

#include "agent/channel/message_channel.h"
#include "proto/medley/v1/agent.pb.h"
#include "runtime/base/clock.h"
#include "runtime/base/files/temporary_directory.h"
#include "runtime/engine/checkpoint/checkpoint.h"

namespace medley {
namespace {

using Catch::Matchers::Contains;

// Much longer than anything here takes on a machine that does something else, too.
constexpr absl::Duration kPatience = absl::Minutes(2);

// A worker in a process of its own, on the reference, whose agent is the test.
class Worker {
 public:
  Worker() {
    int ends[2];
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    pid_ = fork();
    REQUIRE(pid_ >= 0);
    if (pid_ == 0) {
      close(ends[0]);
      _exit(ServeOneTask(ends[1]));
    }
    close(ends[1]);
    channel_ = std::make_unique<MessageChannel>(ends[0]);
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  ~Worker() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

  void Prepare(const v1::TrainTask& task, double lease_seconds = 0) {
    v1::WorkerCommand command;
    v1::PrepareWorker& prepare = *command.mutable_prepare();
    prepare.set_lease_seconds(lease_seconds);
    prepare.set_links("tcp");
    v1::Device& device = *prepare.mutable_device();
    device.set_name("cpu0");
    device.set_backend("reference");
    device.add_cores(0);
    device.set_memory_bytes(64 << 20);
    v1::PrepareRequest& request = *prepare.mutable_request();
    request.set_task_id("tiny-1.1.0");
    request.set_attempt(launch);
    request.set_device("cpu0");
    request.set_attempt_secret(std::string(32, 's'));
    *request.mutable_train() = task;
    Send(command);
  }
  void Send(const v1::WorkerCommand& command) { REQUIRE(channel_->Send(command).ok()); }
  void Ping() {
    v1::WorkerCommand command;
    command.mutable_ping();
    Send(command);
  }
  void Start() {
    v1::WorkerCommand command;
    command.mutable_start()->add_data_plane_addresses("");
    Send(command);
  }
  void FinishEarly() {
    v1::WorkerCommand command;
    command.mutable_finish_early();
    Send(command);
  }

  v1::WorkerReply Next() {
    if (!passed_over_.empty()) {
      const v1::WorkerReply reply = passed_over_.front();
      passed_over_.pop_front();
      return reply;
    }
    v1::WorkerReply reply;
    const absl::Status status = channel_->Receive(reply, Now() + kPatience);
    INFO(status.ToString());
    REQUIRE(status.ok());
    return reply;
  }
  // The next reply that `wanted` takes.
  template <typename Wanted>
  v1::WorkerReply Next(Wanted wanted) {
    while (true) {
      const v1::WorkerReply reply = Next();
      if (wanted(reply)) return reply;
    }
  }
  // Pings until a pong comes that `wanted` takes. More than once, because a pong that finds the channel busy
  // is lost.
  template <typename Wanted>
  v1::Pong Pong(Wanted wanted) {
    const absl::Time end = Now() + kPatience;
    while (true) {
      REQUIRE(Now() < end);
      Ping();
      v1::WorkerReply reply;
      const absl::Status status = channel_->Receive(reply, Now() + absl::Milliseconds(100));
      if (absl::IsDeadlineExceeded(status)) continue;
      INFO(status.ToString());
      REQUIRE(status.ok());
      if (!reply.has_pong()) {
        passed_over_.push_back(reply);
      } else if (wanted(reply.pong())) {
        return reply.pong();
      }
    }
  }
  // Its answer to the preparation.
  v1::WorkerReply Answer() {
    return Next([](const v1::WorkerReply& reply) { return reply.has_prepared() || reply.has_failed(); });
  }
  v1::Finished Finish() {
    return Next([](const v1::WorkerReply& reply) { return reply.event().has_finished(); }).event().finished();
  }
  void HangUp() { channel_.reset(); }

  // Blocks until it has ended.
  int ExitStatus() {
    int status = 0;
    REQUIRE(waitpid(pid_, &status, 0) == pid_);
    pid_ = -1;
    REQUIRE(WIFEXITED(status));
    return WEXITSTATUS(status);
  }

  uint64_t launch = 1;

 private:
  pid_t pid_ = -1;
  std::unique_ptr<MessageChannel> channel_;
  std::deque<v1::WorkerReply> passed_over_;  // that came while a pong was waited for
};

// A tiny GPT-2 on one device, with a checkpoint folder in `directory`/ck/tiny-1.
v1::TrainTask Task(const TemporaryDirectory& directory, uint32_t steps) {
  v1::TrainTask task;
  task.set_job_id("tiny-1");
  task.set_run_id("run-a");
  task.set_spec_fingerprint("f00d");
  v1::JobSpec& spec = *task.mutable_spec();
  spec.set_name("tiny");
  v1::Gpt2Spec& model = *spec.mutable_model()->mutable_gpt2();
  model.set_layers(1);
  model.set_hidden(8);
  model.set_heads(2);
  std::string text;
  for (int i = 0; i < 500; ++i) text += static_cast<char>('a' + i * i % 26);
  spec.mutable_data()->set_train(directory.Write("train.txt", text));
  spec.mutable_batch()->set_sequences(2);
  spec.mutable_batch()->set_sequence_length(8);
  spec.set_steps(steps);
  spec.mutable_checkpoint()->set_directory(directory.File("ck"));
  spec.mutable_checkpoint()->set_every_steps(1'000'000);
  v1::Plan& plan = *task.mutable_plan();
  plan.set_micro_batch_sequences(2);
  v1::Unit& unit = *plan.add_units();
  unit.add_devices("a/cpu0");
  unit.add_blocks()->set_end(3);
  v1::Route& route = *plan.add_routes();
  route.add_units(0);
  route.set_micro_batches(1);
  return task;
}

v1::Finished Run(const v1::TrainTask& task, uint64_t launch = 1) {
  Worker worker;
  worker.launch = launch;
  worker.Prepare(task);
  const v1::WorkerReply answer = worker.Answer();
  INFO(answer.failed().message());
  REQUIRE(answer.has_prepared());
  worker.Start();
  return worker.Finish();
}

// How the preparation of `task` fails.
v1::Finished Refused(const v1::TrainTask& task, uint64_t launch = 1) {
  Worker worker;
  worker.launch = launch;
  worker.Prepare(task);
  const v1::WorkerReply answer = worker.Answer();
  REQUIRE(answer.has_failed());
  CHECK(worker.ExitStatus() == 1);
  return answer.failed();
}

void CheckRefused(const v1::Finished& failed, absl::StatusCode code, const std::vector<std::string>& texts) {
  CHECK(failed.code() == static_cast<uint32_t>(code));
  for (const std::string& text : texts) CHECK_THAT(failed.message(), Contains(text));
}

std::string Folder(const TemporaryDirectory& directory) { return directory.File("ck/tiny-1"); }

TEST_CASE("a worker answers pings while it prepares, waits and trains, with progress that grows") {
  const TemporaryDirectory directory;
  Worker worker;
  // Steps that take much longer than reading of them, so that there is room for pongs.
  v1::TrainTask task = Task(directory, 1'000'000);
  task.mutable_spec()->mutable_model()->mutable_gpt2()->set_hidden(32);
  task.mutable_spec()->mutable_batch()->set_sequence_length(64);
  worker.Prepare(task);
  (void)worker.Pong([](const v1::Pong& pong) { return !pong.activity().empty(); });
  const v1::WorkerReply prepared = worker.Answer();
  REQUIRE(prepared.has_prepared());
  CHECK_THAT(prepared.prepared().data_fingerprint(), Contains("train 500 bytes hash "));
  const v1::Pong waits =
      worker.Pong([](const v1::Pong& pong) { return pong.activity() == "waiting for the start"; });
  CHECK(waits.waits_for_peers());
  worker.Start();
  CHECK(worker.Next([](const v1::WorkerReply& reply) { return reply.event().has_step(); })
            .event()
            .step()
            .at_seconds() > 1e9);
  uint64_t progress = waits.progress();
  for (int i = 0; i < 3; ++i) {
    const v1::Pong trains = worker.Pong([&](const v1::Pong& pong) { return pong.progress() > progress; });
    progress = trains.progress();
    CHECK_FALSE(trains.waits_for_peers());
  }
  (void)worker.Pong([&](const v1::Pong& pong) { return Contains("step ").match(pong.activity()); });
}

TEST_CASE(
    "a worker traces the steps that the agent asks for beside its own, and refuses those that have begun") {
  const TemporaryDirectory directory;
  Worker worker;
  worker.Prepare(Task(directory, 20));
  REQUIRE(worker.Answer().has_prepared());
  const auto ask = [&](uint32_t first_step, uint64_t number) {
    v1::WorkerCommand command;
    command.mutable_trace()->set_first_step(first_step);
    command.mutable_trace()->set_steps(2);
    command.mutable_trace()->set_number(number);
    worker.Send(command);
    const v1::TraceAnswer answer =
        worker.Next([](const v1::WorkerReply& reply) { return reply.has_trace(); }).trace();
    CHECK(answer.number() == number);
    CHECK(answer.answer().current_step() == 1);
    return answer.answer().accepted();
  };
  CHECK_FALSE(ask(1, 1));
  CHECK(ask(18, 2));  // of those that are traced anyhow the last is 16
  worker.Start();
  std::vector<uint32_t> asked, finished;
  worker.Next([&](const v1::WorkerReply& reply) {
    const v1::WorkerEvent& event = reply.event();
    if (event.has_measured() && event.measured().on_request()) {
      asked.push_back(event.measured().step());
      CHECK(event.measured().end_seconds_size() > 0);
    }
    if (event.has_trace_finished()) finished.push_back(event.trace_finished().last_step());
    return event.has_finished();
  });
  CHECK(asked == std::vector<uint32_t>{18, 19});
  CHECK(finished == std::vector<uint32_t>{19});
}

TEST_CASE("a worker answers while it reads a checkpoint from a slow disk, and says that it gets on") {
  const TemporaryDirectory directory;
  v1::TrainTask task = Task(directory, 3);
  CHECK(Run(task).code() == 0);
  task.mutable_spec()->set_steps(4);
  task.set_resume_from(CheckpointDirectory(Folder(directory), 3));
  // Half a minute for all of it, of which the test waits for little.
  setenv("MEDLEY_CHECKPOINT_BYTES_PER_SECOND", "1000", 1);
  Worker worker;
  unsetenv("MEDLEY_CHECKPOINT_BYTES_PER_SECOND");
  worker.Prepare(task);
  uint64_t progress = 0;
  for (int i = 0; i < 3; ++i) {
    const v1::Pong reads = worker.Pong([&](const v1::Pong& pong) {
      REQUIRE(pong.activity() != "waiting for the start");
      return Contains("reading segment").match(pong.activity()) && pong.progress() > progress;
    });
    progress = reads.progress();
    CHECK_FALSE(reads.waits_for_peers());
  }
}

TEST_CASE("a worker that refuses a file says why, whatever bytes the file has") {
  const TemporaryDirectory directory;
  v1::TrainTask task = Task(directory, 3);
  CHECK(Run(task).code() == 0);
  task.mutable_spec()->set_steps(4);
  const std::string checkpoint = CheckpointDirectory(Folder(directory), 3);
  task.set_resume_from(checkpoint);
  std::ofstream(checkpoint + "/manifest.json") << "{\"\xe9\xff\": \xe9}";
  CheckRefused(Refused(task), absl::StatusCode::kDataLoss, {"manifest.json"});
}

TEST_CASE("a worker whose agent is silent for longer than the lease ends itself") {
  const TemporaryDirectory directory;
  Worker worker;
  worker.Prepare(Task(directory, 1'000'000), /*lease_seconds=*/5);  // longer than a busy machine stands still
  // An agent that pings however long the worker takes to get there, and then does so no more.
  (void)worker.Pong([](const v1::Pong& pong) { return pong.activity() == "waiting for the start"; });
  SECTION("before it was let go") {}
  SECTION("in training, with a socket that nobody reads") {
    worker.Start();
    (void)worker.Pong([](const v1::Pong& pong) { return Contains("step ").match(pong.activity()); });
  }
  CHECK(worker.ExitStatus() == 4);
}

TEST_CASE("a worker whose agent is gone ends itself") {
  Worker worker;
  const TemporaryDirectory directory;
  worker.Prepare(Task(directory, 1'000'000));
  worker.Start();
  (void)worker.Answer();
  worker.HangUp();
  CHECK(worker.ExitStatus() == 3);
}

TEST_CASE("training that is asked to finish early saves the step that it is at, and says so") {
  const TemporaryDirectory directory;
  Worker worker;
  worker.Prepare(Task(directory, 1'000'000));
  worker.Start();
  (void)worker.Next([](const v1::WorkerReply& reply) { return reply.event().has_step(); });
  worker.FinishEarly();
  const v1::CheckpointWritten saved =
      worker.Next([](const v1::WorkerReply& reply) { return reply.event().has_checkpoint(); })
          .event()
          .checkpoint();
  const v1::Finished finished = worker.Finish();
  CHECK(finished.code() == 0);
  CHECK(finished.stopped());
  CHECK(finished.stopped_at_step() == saved.step());
  CHECK(worker.ExitStatus() == 0);
  const absl::StatusOr<CheckpointManifest> manifest =
      ReadManifest(CheckpointDirectory(Folder(directory), saved.step()));
  REQUIRE(manifest.ok());
  CHECK(manifest->run == "run-a");
  CHECK(manifest->spec == "f00d");
  CHECK(manifest->launch == 1);
  CHECK_THAT(manifest->data_fingerprint, Contains("train 500 bytes hash "));
}

TEST_CASE("a run is resumed by itself, and a folder of another run is refused before anything is trained") {
  const TemporaryDirectory directory;
  v1::TrainTask task = Task(directory, 3);
  CHECK(Run(task).code() == 0);
  const std::string checkpoint = CheckpointDirectory(Folder(directory), 3);
  v1::TrainTask other = Task(directory, 5);
  other.set_run_id("run-b");
  CheckRefused(Refused(other), absl::StatusCode::kFailedPrecondition,
               {"checkpoint.directory: " + Folder(directory) +
                    " holds checkpoints of another run (job tiny-1, step 3)",
                "checkpoint.resume_from: " + checkpoint});
  // As its own it is refused even from elsewhere.
  other.mutable_spec()->mutable_checkpoint()->set_directory(directory.File("elsewhere"));
  other.set_resume_from(checkpoint);
  CheckRefused(Refused(other), absl::StatusCode::kFailedPrecondition, {checkpoint + " is of another run"});
  // As another's it is continued, in a folder of its own.
  other.set_resumes_other_run(true);
  CHECK(Run(other).code() == 0);
  CHECK(ReadManifest(CheckpointDirectory(directory.File("elsewhere/tiny-1"), 5))->run == "run-b");
  other.mutable_spec()->set_steps(3);
  CheckRefused(Refused(other), absl::StatusCode::kFailedPrecondition, {"steps: 3", "has 3 done already"});
  // The run itself goes on, in a later launch, and an earlier one of it is refused.
  task.mutable_spec()->set_steps(4);
  task.set_resume_from(checkpoint);
  CHECK(Run(task, 9).code() == 0);
  CHECK(ReadManifest(CheckpointDirectory(Folder(directory), 4))->launch == 9);
  CheckRefused(Refused(task, 8), absl::StatusCode::kFailedPrecondition, {"superseded by launch 9"});
}

TEST_CASE("a run is not resumed with other data, and what continues another run is") {
  const TemporaryDirectory directory;
  v1::TrainTask task = Task(directory, 3);
  CHECK(Run(task).code() == 0);
  task.mutable_spec()->set_steps(4);
  task.set_resume_from(CheckpointDirectory(Folder(directory), 3));
  std::ofstream(directory.File("train.txt"), std::ios::app) << "more";
  CheckRefused(Refused(task, 2), absl::StatusCode::kFailedPrecondition,
               {"data.train: ", "train 500 bytes hash ", "train 504 bytes hash "});
  task.set_run_id("run-b");
  task.set_resumes_other_run(true);
  task.mutable_spec()->mutable_checkpoint()->set_directory(directory.File("elsewhere"));
  CHECK(Run(task).code() == 0);
}

TEST_CASE(
    "a damaged checkpoint is DataLoss that names it, so that another can be taken, and one that is not seen "
    "is not") {
  const TemporaryDirectory directory;
  v1::TrainTask task = Task(directory, 3);
  CHECK(Run(task).code() == 0);
  const std::string checkpoint = CheckpointDirectory(Folder(directory), 3);
  task.mutable_spec()->set_steps(4);
  task.set_resume_from(checkpoint);
  const std::string damage = GENERATE("a segment is cut", "the manifest is gone", "all is gone");
  CAPTURE(damage);
  if (damage == "a segment is cut")
    std::filesystem::resize_file(checkpoint + "/segment-00002.safetensors", 1000);
  if (damage == "the manifest is gone") std::filesystem::remove(checkpoint + "/manifest.json");
  if (damage == "all is gone") std::filesystem::remove_all(checkpoint);
  if (damage == "a segment is cut")
    CheckRefused(Refused(task, 2), absl::StatusCode::kDataLoss, {"checkpoint " + checkpoint});
  else
    CheckRefused(Refused(task, 2), absl::StatusCode::kUnavailable,
                 {"checkpoint " + checkpoint + " is not seen here", "must be shared"});
}

TEST_CASE("a checkpoint directory that cannot be written is found when the job is launched") {
  const TemporaryDirectory directory;
  v1::TrainTask task = Task(directory, 3);
  const std::string place = GENERATE("/proc/medley-test", "file");
  const std::string path = place == "file" ? directory.Write("file", "") : place;
  task.mutable_spec()->mutable_checkpoint()->set_directory(path);
  CheckRefused(Refused(task), absl::StatusCode::kFailedPrecondition, {"checkpoint.directory: ", path});
}

}  // namespace
}  // namespace medley
