// Commands about jobs that were submitted: what is done with them, and what is shown and followed of them.
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <csignal>
#include <map>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "cli/command_line_under_test.h"
#include "cli/interrupts.h"
#include "nlohmann/json.hpp"

namespace medley {
namespace {

using nlohmann::json;

TEST_CASE("a job is cancelled, and its end is waited for") {
  FakeCoordinator coordinator;
  coordinator.job = JobIn(v1::JOB_STATE_RUNNING);
  int looks = 0;
  coordinator.change_on_look = [&](v1::Job& job) {
    if (++looks == 3) job.set_state(v1::JOB_STATE_CANCELLED);
  };
  const Outcome outcome = Ask(coordinator, {"cancel", "bible-1"});
  CHECK(outcome.code == 0);
  CHECK_THAT(outcome.out, Catch::Contains("cancelled") && !Catch::Contains("running"));
  CHECK(coordinator.Seen()["cancel"] == "job_id: \"bible-1\"");
}

TEST_CASE("a job that takes long to end is said to be being cancelled") {
  FakeCoordinator coordinator;
  coordinator.job = JobIn(v1::JOB_STATE_RUNNING);
  // It is the time for an answer, too, which a busy machine takes long for.
  const Outcome outcome = Ask(coordinator, {"--timeout", "3", "cancel", "bible-1", "--checkpoint"});
  CHECK(outcome.code == 0);
  CHECK_THAT(outcome.out, Catch::Contains("running"));
  CHECK(outcome.err ==
        "medley: job bible-1 is being cancelled after a checkpoint; medley watch bible-1 shows its end\n");
  CHECK(coordinator.Seen()["cancel"] == "job_id: \"bible-1\" after_checkpoint: true");
}

TEST_CASE("what is done with jobs and nodes reaches the coordinator") {
  FakeCoordinator coordinator;
  coordinator.job = JobIn(v1::JOB_STATE_QUEUED);
  for (const char* command : {"resume", "hold", "release", "replan", "delete"}) {
    CAPTURE(command);
    CHECK(Ask(coordinator, {command, "bible-1"}).code == 0);
  }
  std::map<std::string, std::string> seen = coordinator.Seen();
  CHECK(seen["resume"] == "job_id: \"bible-1\"");
  CHECK(seen["hold"] == "job_id: \"bible-1\"");  // of the release, which came last
  CHECK(seen["replan"] == "job_id: \"bible-1\"");
  CHECK(seen["delete"] == "job_id: \"bible-1\"");
  CHECK(Ask(coordinator, {"hold", "bible-1"}).code == 0);
  const Outcome forced = Ask(coordinator, {"replan", "bible-1", "--force"});
  CHECK_THAT(forced.out, Catch::Contains("yes") && Catch::Contains("1.5 s now, 1.2 s then"));
  CHECK(Ask(coordinator, {"forget", "a"}).out == "node a is forgotten\n");
  CHECK(json::parse(Ask(coordinator, {"--output", "json", "forget", "a"}).out) == json({{"forgotten", "a"}}));
  CHECK(Ask(coordinator, {"trace", "bible-1", "--step", "7", "-o", "-"}).code == 0);
  seen = coordinator.Seen();
  CHECK(seen["hold"] == "job_id: \"bible-1\" hold: true");
  CHECK(seen["replan"] == "job_id: \"bible-1\" force: true");
  CHECK(seen["forget"] == "node: \"a\"");
  CHECK(seen["trace"] == "job_id: \"bible-1\" step: 7");
}

TEST_CASE("lists say when there is more, and take as many as is asked for") {
  FakeCoordinator coordinator;
  coordinator.job = JobIn(v1::JOB_STATE_DONE);
  for (int i = 1; i <= 1000; ++i) coordinator.logs.add_lines()->set_number(i);
  CHECK(Ask(coordinator, {"status"}).err == "medley: these are the newest 100 jobs; -n N shows more\n");
  CHECK(Ask(coordinator, {"status", "-n", "100"}).err.empty());
  CHECK(coordinator.Seen()["jobs"] == "limit: 100");
  CHECK(Ask(coordinator, {"logs", "x"}).err == "medley: these are the newest 1000 lines; -n N shows more\n");
  CHECK(Ask(coordinator, {"logs", "x", "--limit", "5000"}).err.empty());
  CHECK(coordinator.Seen()["logs"] == "job_id: \"x\" limit: 5000");
  CHECK(Ask(coordinator, {"logs", "x", "--since", "1970-01-02", "-n", "3"}).code == 0);
  CHECK(coordinator.Seen()["logs"] == "job_id: \"x\" limit: 3 since_seconds: 86400");
  CHECK(Ask(coordinator, {"steps", "x", "-n", "3"}).code == 0);
  CHECK(coordinator.Seen()["steps"] == "job_id: \"x\" limit: 3");
  CHECK(Ask(coordinator, {"logs", "x", "-n", "0"}).code == 2);
  for (int i = 0; i < 1000; ++i) coordinator.audit.add_records();
  CHECK(Ask(coordinator, {"audit"}).err == "medley: these are the newest 1000 records; -n N shows more\n");
  CHECK(Ask(coordinator, {"audit", "-n", "1000"}).err.empty());
  CHECK(Ask(coordinator, {"--output", "json", "audit"}).err.empty());
}

TEST_CASE("logs are followed until the job has ended, each line once") {
  FakeCoordinator coordinator;
  coordinator.job = JobIn(v1::JOB_STATE_RUNNING);
  int looks = 0;
  coordinator.change_on_look = [&](v1::Job& job) {
    v1::LogLine& line = *coordinator.logs.add_lines();
    line.set_number(++looks);
    line.set_text(absl::StrCat("line ", looks));
    if (looks == 2) job.set_state(v1::JOB_STATE_DONE);
  };
  const Outcome outcome = Ask(coordinator, {"logs", "bible-1", "--follow"});
  CHECK(outcome.code == 0);
  CHECK_THAT(outcome.out, Catch::Matches("-  +line 1\n-  +line 2\n"));
}

TEST_CASE("where a device has said nothing, what it may be called is said") {
  FakeCoordinator coordinator;
  coordinator.job = JobIn(v1::JOB_STATE_DONE);
  const Outcome silent = Ask(coordinator, {"logs", "bible-1", "--device", "nod/cpu0"});
  CHECK(silent.code == 0);
  CHECK(silent.out.empty());
  CHECK_THAT(silent.err, Catch::StartsWith("medley: of \"nod/cpu0\" there are no lines; "));
  CHECK(Ask(coordinator, {"--output", "json", "logs", "bible-1", "--device", "nod/cpu0"}).err.empty());
  CHECK(Ask(coordinator, {"logs", "bible-1"}).err.empty());
}

TEST_CASE(
    "a watch goes on after the coordinator was away, with nothing twice and nothing of a discarded attempt "
    "missing") {
  FakeCoordinator coordinator;
  coordinator.updates = {Update(v1::JOB_STATE_RUNNING, 1, 1, 33, 20)};
  // It dies after its first update; while it is away the job starts anew from its checkpoint, and ends.
  std::atomic<int> lives = 0;
  coordinator.watch_goes_on = [&](int) { return ++lives > 1; };
  std::thread restart([&] {
    while (lives == 0) std::this_thread::yield();
    coordinator.Stop();
    v1::JobUpdate after = Update(v1::JOB_STATE_DONE, 1, 1, 20, 20);
    v1::JobUpdate end = Update(v1::JOB_STATE_DONE, 2, 21, 40, 40);
    after.MergeFrom(end);
    coordinator.updates = {after};
    coordinator.Restart();
  });
  const Outcome outcome = Ask(coordinator, {"--output", "json", "watch", "bible-1"});
  restart.join();
  CHECK(outcome.code == 0);
  std::vector<std::pair<uint32_t, uint32_t>> steps;
  int lines = 0;
  for (const absl::string_view line : absl::StrSplit(outcome.out, '\n', absl::SkipEmpty())) {
    const json update = json::parse(line);
    CHECK(update["job"].contains("spec") == (lines++ == 0));
    for (const json& step : update["steps"]) steps.emplace_back(step["attempt"], step["step"]);
  }
  REQUIRE(steps.size() == 33 + 20);
  CHECK(steps[32] == std::pair<uint32_t, uint32_t>(1, 33));
  CHECK(steps[33] == std::pair<uint32_t, uint32_t>(2, 21));
  CHECK(steps.back() == std::pair<uint32_t, uint32_t>(2, 40));
  CHECK_THAT(outcome.err,
             Catch::Contains("asking again\n") && Catch::Contains("medley: the coordinator is back after "));
  CHECK(coordinator.Seen()["watch 2"] == "job_id: \"bible-1\" after_step: 20");
}

TEST_CASE("a watched job's end is the exit code, and Ctrl-C leaves it running") {
  BlockInterrupts();
  FakeCoordinator coordinator;
  coordinator.updates = {Update(v1::JOB_STATE_FAILED, 1, 1, 2, 0)};
  coordinator.updates[0].mutable_job()->set_state_reason("a/cpu0: out of memory");
  const Outcome failed = Ask(coordinator, {"watch", "bible-1"});
  CHECK(failed.code == 1);
  CHECK(failed.err == "medley: job bible-1 failed: a/cpu0: out of memory\n");
  coordinator.updates[0].mutable_job()->set_state_reason("a/cpu0: \x1b[31mout of\nmemory");
  CHECK(Ask(coordinator, {"watch", "bible-1"}).err ==
        "medley: job bible-1 failed: a/cpu0: \\x1b[31mout of memory\n");
  coordinator.updates = {Update(v1::JOB_STATE_RUNNING, 1, 1, 2, 0)};
  coordinator.watch_goes_on = [](int) {
    kill(getpid(), SIGINT);
    return true;
  };
  const Outcome interrupted = Ask(coordinator, {"watch", "bible-1"});
  CHECK(interrupted.code == 130);
  CHECK_THAT(interrupted.err, Catch::Contains("job bible-1 goes on"));
}

TEST_CASE("steps are followed with those of a newer attempt, as a table or as JSON") {
  FakeCoordinator coordinator;
  coordinator.updates = {Update(v1::JOB_STATE_RUNNING, 1, 1, 3, 2), Update(v1::JOB_STATE_DONE, 2, 3, 4, 4)};
  const Outcome outcome = Ask(coordinator, {"steps", "bible-1", "-f"});
  CHECK(outcome.code == 0);
  const std::vector<std::string> lines = absl::StrSplit(outcome.out, '\n', absl::SkipEmpty());
  REQUIRE(lines.size() == 6);
  CHECK_THAT(lines[0], Catch::StartsWith("STEP"));
  CHECK_THAT(lines[4], Catch::StartsWith("   3  "));
  CHECK_THAT(lines[5], Catch::StartsWith("   4  "));
}

TEST_CASE("steps that are followed say that the coordinator is away and back") {
  FakeCoordinator coordinator;
  coordinator.updates = {Update(v1::JOB_STATE_RUNNING, 1, 1, 2, 0), Update(v1::JOB_STATE_DONE, 1, 3, 3, 0)};
  int told = 0;
  coordinator.watch_goes_on = [&](int) { return ++told > 1; };
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"steps", "bible-1", "-f"}, {"steps", "bible-1", "-f", "-n", "5"}}) {
    told = 0;
    const Outcome outcome = Ask(coordinator, words);
    CHECK(outcome.code == 0);
    CHECK_THAT(outcome.err, Catch::StartsWith("medley: the coordinator is stopping; asking again\n"
                                              "medley: the coordinator is back after "));
  }
}

TEST_CASE("a coordinator that does not answer in time is asked again by what repeats its question") {
  FakeCoordinator coordinator;
  coordinator.job = JobIn(v1::JOB_STATE_RUNNING);
  int looks = 0;
  coordinator.change_on_look = [&](v1::Job& job) {
    ++looks;
    coordinator.status =
        looks == 2 ? grpc::Status(grpc::StatusCode::DEADLINE_EXCEEDED, "it is late") : grpc::Status::OK;
    if (looks == 3) job.set_state(v1::JOB_STATE_DONE);
  };
  const char* command = GENERATE("status", "logs");
  const Outcome outcome =
      Ask(coordinator, {command, "bible-1", std::string(command) == "status" ? "-w" : "-f"});
  CHECK(outcome.code == 0);
  CHECK_THAT(outcome.err, Catch::StartsWith("medley: it is late; asking again\n"
                                            "medley: the coordinator is back after "));
}

TEST_CASE("Ctrl-C is heard while the coordinator stands still") {
  BlockInterrupts();
  FakeCoordinator coordinator;
  coordinator.job = JobIn(v1::JOB_STATE_RUNNING);
  using Words = std::vector<std::string>;
  const auto [call, words] = GENERATE(table<std::string, Words>({
      {"get", {"status", "bible-1", "-w"}},
      {"jobs", {"status", "-w"}},
      {"get", {"logs", "bible-1", "-f"}},
      {"logs", {"logs", "bible-1", "-f"}},
      {"steps", {"steps", "bible-1", "-f", "-n", "5"}},
      {"get", {"steps", "bible-1", "-f", "-n", "5"}},
      {"cancel", {"cancel", "bible-1"}},
  }));
  CAPTURE(call, words);
  coordinator.stands_still = call;
  CHECK(Ask(coordinator, words).code == 130);
}

TEST_CASE("Ctrl-C ends the waiting for the end of a job that is being cancelled") {
  BlockInterrupts();
  FakeCoordinator coordinator;
  coordinator.job = JobIn(v1::JOB_STATE_RUNNING);
  coordinator.stands_still = "get";
  const Outcome outcome = Ask(coordinator, {"--timeout", "86400", "cancel", "bible-1"});
  CHECK(outcome.code == 0);
  CHECK(outcome.err == "medley: job bible-1 is being cancelled; medley watch bible-1 shows its end\n");
}

TEST_CASE("what a coordinator answers does not command the terminal") {
  FakeCoordinator coordinator;
  coordinator.status = grpc::Status(grpc::StatusCode::NOT_FOUND, "no job \x1b[2Jx");
  CHECK(Ask(coordinator, {"status", "x"}).err == "medley: no job \\x1b[2Jx\n");
}

TEST_CASE("a status says what share of its devices' best the model makes of them, where that was measured") {
  FakeCoordinator coordinator;
  coordinator.job.set_id("bible-1");
  coordinator.job.set_state(v1::JOB_STATE_RUNNING);
  coordinator.job.set_attempt(1);
  coordinator.job.set_parameters(1'000'000'000);
  coordinator.job.set_measured_step_seconds(2);
  coordinator.job.mutable_last_step()->set_tokens(1000);
  v1::DeviceShare& device = *coordinator.job.mutable_plan()->add_devices();
  device.set_kind("L4");
  device.set_used(true);
  CHECK_THAT(Ask(coordinator, {"status", "bible-1"}).out, Catch::Contains(" 3.0 TFLOP/s\n"));
  v1::DeviceProfile& profile = *coordinator.nodes.add_profiles();
  profile.set_device_kind("L4");
  profile.set_shape("gpt2 hidden=64 precision=f32");
  profile.set_matmul_flops_per_second(1e13);
  CHECK_THAT(Ask(coordinator, {"status", "bible-1"}).out,
             Catch::Contains("3.0 TFLOP/s, 30 % of what its devices make of large products\n"));
  profile.set_shape("gpt2 hidden=64 precision=bf16");
  CHECK_THAT(Ask(coordinator, {"status", "bible-1"}).out, Catch::Contains(" 3.0 TFLOP/s\n"));
}

TEST_CASE("a status is shown again until the job has ended") {
  FakeCoordinator coordinator;
  coordinator.job = JobIn(v1::JOB_STATE_RUNNING);
  int looks = 0;
  coordinator.change_on_look = [&](v1::Job& job) {
    if (++looks == 2) job.set_state(v1::JOB_STATE_DONE);
  };
  const Outcome outcome = Ask(coordinator, {"status", "-w", "bible-1"});
  CHECK(outcome.code == 0);
  CHECK_THAT(outcome.out, Catch::Contains("running") && Catch::Contains("done"));
}

}  // namespace
}  // namespace medley
