#include "cli/command_line.h"

#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "cli/interrupts.h"
#include "nlohmann/json.hpp"
#include "proto/medley/v1/coordinator.grpc.pb.h"
#include "runtime/base/mutex.h"
#include "runtime/wire/yaml_message.h"

namespace medley {
namespace {

using nlohmann::json;

// A coordinator that answers with what a test put into it.
class FakeCoordinator final : public v1::Coordinator::Service {
 public:
  FakeCoordinator() { Start("127.0.0.1:0"); }
  ~FakeCoordinator() override { Stop(); }

  const std::string& address() const { return address_; }
  void Stop() {
    if (!server_) return;
    server_->Shutdown(gpr_inf_past(GPR_CLOCK_REALTIME));
    server_.reset();
  }
  // Again at the port that it had.
  void Restart() { Start(address_); }

  // How long the newest call that plans, measures or copies may take; none: without end.
  std::optional<absl::Duration> limit() {
    MutexLock lock(mutex_);
    return limit_;
  }

  // What calls came with, by name.
  std::map<std::string, std::string> Seen() {
    MutexLock lock(mutex_);
    return seen_;
  }

  v1::Job job;                                   // of every call that answers with one
  std::function<void(v1::Job&)> change_on_look;  // before GetJob answers
  grpc::Status status;                           // of every call
  std::vector<v1::JobUpdate> updates;            // of WatchJob
  // After this update of this server's life; false: UNAVAILABLE.
  std::function<bool(int)> watch_goes_on;
  v1::ListLogsResponse logs;
  v1::ListStepsResponse steps;
  v1::ListNodesResponse nodes;
  v1::ClusterSpec cluster;
  std::atomic<bool> plan_cancelled = false;

  grpc::Status SubmitJob(grpc::ServerContext*, const v1::SubmitJobRequest* request,
                         v1::SubmitJobResponse* reply) override {
    See("submit", *request);
    *reply->mutable_job() = job;
    return status;
  }
  grpc::Status GetJob(grpc::ServerContext*, const v1::GetJobRequest* request, v1::Job* reply) override {
    See("get", *request);
    MutexLock lock(mutex_);
    if (change_on_look) change_on_look(job);
    *reply = job;
    return status;
  }
  grpc::Status ListJobs(grpc::ServerContext*, const v1::ListJobsRequest* request,
                        grpc::ServerWriter<v1::ListJobsResponse>* writer) override {
    See("jobs", *request);
    for (int i = 0; i < 100; ++i) {
      v1::ListJobsResponse part;
      *part.add_jobs() = job;
      writer->Write(part);
    }
    return status;
  }
  grpc::Status CancelJob(grpc::ServerContext*, const v1::CancelJobRequest* request, v1::Job* reply) override {
    See("cancel", *request);
    *reply = job;
    return status;
  }
  grpc::Status ResumeJob(grpc::ServerContext*, const v1::ResumeJobRequest* request, v1::Job* reply) override {
    See("resume", *request);
    *reply = job;
    return status;
  }
  grpc::Status HoldJob(grpc::ServerContext*, const v1::HoldJobRequest* request, v1::Job* reply) override {
    See("hold", *request);
    *reply = job;
    return status;
  }
  grpc::Status DeleteJob(grpc::ServerContext*, const v1::DeleteJobRequest* request,
                         v1::DeleteJobResponse*) override {
    See("delete", *request);
    return status;
  }
  grpc::Status ForgetNode(grpc::ServerContext*, const v1::ForgetNodeRequest* request,
                          v1::ForgetNodeResponse*) override {
    See("forget", *request);
    return status;
  }
  grpc::Status ReplanJob(grpc::ServerContext* context, const v1::ReplanJobRequest* request,
                         v1::ReplanJobResponse* reply) override {
    See("replan", *request);
    NoteDeadline(*context);
    *reply->mutable_job() = job;
    reply->set_decision("1.5 s now, 1.2 s then");
    reply->set_replans(request->force());
    return status;
  }
  // Plans until nobody waits for it.
  grpc::Status PlanJob(grpc::ServerContext* context, const v1::PlanJobRequest* request,
                       v1::PlanReport*) override {
    See("plan", *request);
    NoteDeadline(*context);
    if (!status.ok()) return status;
    kill(getpid(), SIGINT);
    while (!context->IsCancelled()) std::this_thread::yield();
    plan_cancelled = true;
    return grpc::Status::CANCELLED;
  }
  grpc::Status ListNodes(grpc::ServerContext*, const v1::ListNodesRequest*,
                         v1::ListNodesResponse* reply) override {
    *reply = nodes;
    return status;
  }
  grpc::Status ExportCluster(grpc::ServerContext*, const v1::ExportClusterRequest* request,
                             grpc::ServerWriter<v1::ClusterSpec>* writer) override {
    See("cluster", *request);
    if (status.ok()) writer->Write(cluster);
    return status;
  }
  grpc::Status GetPlan(grpc::ServerContext* context, const v1::GetPlanRequest* request,
                       v1::PlanReport* reply) override {
    See("explain", *request);
    NoteDeadline(*context);
    reply->set_description("1 route");
    if (request->with_predicted_step()) reply->mutable_predicted_step()->add_lanes()->set_kind("a <kind>");
    return status;
  }
  grpc::Status CheckNodes(grpc::ServerContext*, const v1::CheckNodesRequest* request,
                          v1::CheckNodesResponse*) override {
    See("check", *request);
    return status;
  }
  grpc::Status BackUp(grpc::ServerContext* context, const v1::BackUpRequest* request,
                      grpc::ServerWriter<v1::BackUpPart>* writer) override {
    See("backup", *request);
    NoteDeadline(*context);
    v1::BackUpPart part;
    part.set_bytes("a store");
    writer->Write(part);
    return status;
  }
  grpc::Status MeasureLinks(grpc::ServerContext* context, const v1::MeasureLinksRequest* request,
                            grpc::ServerWriter<v1::ListLinksResponse>*) override {
    See("measure", *request);
    NoteDeadline(*context);
    return status;
  }
  grpc::Status ListLinks(grpc::ServerContext* context, const v1::ListLinksRequest* request,
                         grpc::ServerWriter<v1::ListLinksResponse>*) override {
    See("links", *request);
    NoteDeadline(*context);
    return status;
  }
  grpc::Status GetTrace(grpc::ServerContext*, const v1::GetTraceRequest* request, v1::Trace* reply) override {
    See("trace", *request);
    reply->set_job_id(request->job_id());
    reply->set_step(request->step());
    return status;
  }
  grpc::Status ListLogs(grpc::ServerContext*, const v1::ListLogsRequest* request,
                        v1::ListLogsResponse* reply) override {
    See("logs", *request);
    for (const v1::LogLine& line : logs.lines()) {
      if (line.number() > request->after_line()) *reply->add_lines() = line;
    }
    return status;
  }
  grpc::Status ListSteps(grpc::ServerContext*, const v1::ListStepsRequest* request,
                         grpc::ServerWriter<v1::ListStepsResponse>* writer) override {
    See("steps", *request);
    for (const v1::StepMetrics& step : steps.steps()) {
      v1::ListStepsResponse part;
      *part.add_steps() = step;
      writer->Write(part);
    }
    v1::ListStepsResponse last;
    *last.mutable_validations() = steps.validations();
    writer->Write(last);
    return status;
  }
  grpc::Status WatchJob(grpc::ServerContext*, const v1::WatchJobRequest* request,
                        grpc::ServerWriter<v1::JobUpdate>* writer) override {
    See(absl::StrCat("watch ", ++watches_), *request);
    if (!status.ok()) return status;
    for (size_t i = 0; i < updates.size(); ++i) {
      v1::JobUpdate update = updates[i];
      update.clear_steps();
      for (const v1::StepMetrics& step : updates[i].steps()) {
        if (step.step() > request->after_step() || step.attempt() > 1) *update.add_steps() = step;
      }
      writer->Write(update);
      if (watch_goes_on && !watch_goes_on(static_cast<int>(i))) {
        return {grpc::StatusCode::UNAVAILABLE, "the coordinator is stopping"};
      }
    }
    return grpc::Status::OK;
  }

 private:
  void Start(const std::string& address) {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    REQUIRE(server_ != nullptr);
    address_ = absl::StrCat("127.0.0.1:", port);
  }
  void See(const std::string& call, const google::protobuf::Message& request) {
    MutexLock lock(mutex_);
    seen_[call] = request.ShortDebugString();
  }
  void NoteDeadline(const grpc::ServerContext& context) {
    MutexLock lock(mutex_);
    limit_.reset();
    if (context.deadline() != std::chrono::system_clock::time_point::max())
      limit_ = absl::FromChrono(context.deadline()) - absl::Now();
  }

  Mutex mutex_;
  std::optional<absl::Duration> limit_;
  std::map<std::string, std::string> seen_;
  std::atomic<int> watches_ = 0;
  std::string address_;
  std::unique_ptr<grpc::Server> server_;
};

// What a command printed, and how it ended.
struct Outcome {
  int code = -1;
  std::string out, err;
};

// Standard output or error into a file, for a while.
class Redirected {
 public:
  Redirected(FILE* stream, const std::string& file) : stream_(stream), file_(file) {
    std::fflush(stream);
    kept_ = dup(fileno(stream));
    REQUIRE(freopen(file.c_str(), "w", stream) != nullptr);
  }
  std::string Finish() {
    std::fflush(stream_);
    dup2(kept_, fileno(stream_));
    close(kept_);
    std::clearerr(stream_);
    // A device, such as /dev/full, has no end to read to.
    if (!std::filesystem::is_regular_file(file_)) return "";
    std::ifstream in(file_);
    return {std::istreambuf_iterator<char>(in), {}};
  }

 private:
  FILE* const stream_;
  const std::string file_;
  int kept_ = -1;
};

std::string TemporaryFile(const std::string& name) {
  static const std::string folder = [] {
    const char* given = std::getenv("TEST_TMPDIR");
    std::string path = absl::StrCat(given == nullptr ? "/tmp" : given, "/command-line-XXXXXX");
    REQUIRE(mkdtemp(path.data()) != nullptr);
    return path;
  }();
  return absl::StrCat(folder, "/", name);
}

Outcome Run(std::vector<std::string> words, const std::string& out_file = TemporaryFile("out")) {
  words.insert(words.begin(), "medley");
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  Redirected out(stdout, out_file), err(stderr, TemporaryFile("err"));
  Outcome outcome;
  outcome.code = RunCommandLine(static_cast<int>(arguments.size()), arguments.data());
  outcome.out = out.Finish();
  outcome.err = err.Finish();
  return outcome;
}

Outcome Ask(const FakeCoordinator& coordinator, std::vector<std::string> words) {
  words.insert(words.begin(), {"--coordinator", coordinator.address()});
  return Run(std::move(words));
}

v1::Job JobIn(v1::JobState state) {
  v1::Job job;
  job.set_id("bible-1");
  job.set_state(state);
  job.mutable_spec()->set_name("bible");
  job.mutable_spec()->set_steps(100);
  return job;
}

v1::JobUpdate Update(v1::JobState state, uint32_t attempt, uint32_t first, uint32_t last,
                     uint32_t checkpoint) {
  v1::JobUpdate update;
  *update.mutable_job() = JobIn(state);
  update.mutable_job()->set_attempt(attempt);
  update.mutable_job()->set_checkpoint_step(checkpoint);
  for (uint32_t i = first; i <= last; ++i) {
    v1::StepMetrics& step = *update.add_steps();
    step.set_step(i);
    step.set_attempt(attempt);
    step.set_loss(i);
    *update.mutable_job()->mutable_last_step() = step;
  }
  return update;
}

const char kSpec[] =
    "name: bible\n"
    "model: {gpt2: {layers: 1, hidden: 8, heads: 1}}\n"
    "data: {train: /x.txt}\n"
    "batch: {sequences: 8, sequence_length: 8}\n"
    "steps: 10\n";

std::string SpecFile() {
  const std::string file = TemporaryFile("job.yaml");
  std::ofstream(file) << kSpec;
  return file;
}

struct Wrong {
  std::vector<std::string> words;
  std::string error;
};

TEST_CASE("a wrong command line ends with 2 and one line that says what to do") {
  const Wrong wrong = GENERATE(
      Wrong{{"submitt"}, "no command \"submitt\"; did you mean \"submit\"?"},
      Wrong{{"--timeout", "5", "statsu", "x"}, "no command \"statsu\"; did you mean \"status\"?"},
      Wrong{{"xyzzy"}, "no command \"xyzzy\"; medley --help lists them"},
      Wrong{{}, "no command; medley --help lists them"},
      Wrong{{"logs"}, "JOB is required (medley logs --help)"},
      Wrong{{"--coordinator", "http://host:1", "status"},
            "--coordinator: \"http://host:1\": write HOST:PORT, without http://"},
      Wrong{{"--coordinator", "", "status"}, "--coordinator: \"\": is empty; write HOST:PORT"},
      Wrong{{"--output", "cluster", "status"}, "--output: cluster is for `medley nodes` only"},
      Wrong{
          {"steps", "x", "--since", "soon"},
          "--since: \"soon\" must be how long ago (90s, 10m, 2h, 1d) or a moment (2026-11-21 03:37:49, UTC)"},
      Wrong{{"generate", "--model", "m", "--prompt", "", "--tokens", "5"},
            "--prompt: is empty (medley generate --help)"},
      Wrong{{"generate", "--model", "m", "--prompt", "a", "--tokens", "-1"},
            "--tokens: -1 is not a whole number in [1, 10000000] (medley generate --help)"},
      Wrong{{"generate", "--model", "m"}, "generate: give --prompt TEXT or --prompt-tokens IDS"},
      Wrong{{"submit", "/"}, "cannot read /: it is a folder, not a file"},
      Wrong{{"help", "plam"}, "no command \"plam\"; did you mean \"plan\"?"},
      Wrong{{"certs", "issue", "d", "--name", "n"}, "--authority is required (medley certs issue --help)"},
      Wrong{{"certs", "init", "d", "--days", "0"},
            "--days: Value 0 not in range 1 to 36500 (medley certs init --help)"},
      Wrong{{"trace", "x", "--step", "-1"},
            "--step: Value -1 not in range 1 to 1000000000 (medley trace --help)"},
      Wrong{{"jobs", "gc", "--keep", "-1"},
            "--keep: Value -1 not in range 0 to 100000 (medley jobs gc --help)"},
      Wrong{{"plan", "x.yaml", "--budget-per-hour", "-1"}, "--budget-per-hour -1: must be a number above 0"},
      Wrong{{"plan", "x.yaml", "--budget-per-hour", "nan"},
            "--budget-per-hour nan: must be a number above 0"},
      Wrong{{"plan", "x.yaml", "--most-devices", "0"}, "--most-devices 0: must be a whole number above 0"},
      Wrong{{"plan", "x.yaml", "--deadline", "-2h"},
            "--deadline -2h: must be a length of time above 0, as in 90s, 10m, 1h30m or 2d"},
      Wrong{{"submit", "x.yaml", "--set", "steps"},
            "--set steps: must be FIELD=VALUE, as in optimizer.learning_rate=1e-3"});
  CAPTURE(wrong.words);
  const Outcome outcome = Run(wrong.words);
  CHECK(outcome.code == 2);
  CHECK(outcome.err == absl::StrCat("medley: ", wrong.error, "\n"));
  CHECK(outcome.out.empty());
}

TEST_CASE("help, version and completion are answers") {
  CHECK_THAT(Run({"help"}).out, Catch::Contains("resume") && Catch::Contains("--coordinator"));
  CHECK_THAT(Run({"help", "replan"}).out, Catch::Contains("--force"));
  CHECK_THAT(Run({"--version"}).out, Catch::StartsWith("medley 0."));
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const Outcome outcome = Run({"completion", shell});
    CAPTURE(outcome.out);
    CHECK(outcome.code == 0);
    for (const char* wanted : {"status", "replan", "force", "resume"})
      CHECK_THAT(outcome.out, Catch::Contains(wanted));
  }
  // As an autoloaded file it has to complete at its first call, too, which only defines the function.
  CHECK_THAT(Run({"completion", "zsh"}).out,
             Catch::Contains("then _medley \"$@\"; else compdef _medley medley"));
  CHECK(Run({"completion", "tcsh"}).code == 2);
}

TEST_CASE("every command has help and says what it is for") {
  const std::string all = Run({"--help"}).out;
  const std::vector<std::string> lines = absl::StrSplit(all.substr(all.find("Subcommands:")), '\n');
  int commands = 0;
  for (const std::string& line : lines) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
    if (line.substr(0, 2) != "  " || words.empty()) continue;
    ++commands;
    CAPTURE(line);
    CHECK(words.size() > 2);
    const Outcome outcome = Run({words[0], "--help"});
    CHECK(outcome.code == 0);
    CHECK_THAT(outcome.out, Catch::Contains("Usage: medley " + words[0]));
  }
  CHECK(commands == 32);
}

TEST_CASE("where there is no coordinator, it is said without the transport's dump") {
  std::string address;
  {
    const FakeCoordinator gone;
    address = gone.address();
  }
  const Outcome outcome = Run({"--coordinator", address, "status"});
  CHECK(outcome.code == 1);
  CHECK(outcome.err == absl::StrCat("medley: no coordinator at ", address,
                                    ": connection refused. Start one (medley up), or set --coordinator or "
                                    "MEDLEY_COORDINATOR\n"));
  const Outcome as_json = Run({"--coordinator", address, "--output", "json", "watch", "x"});
  CHECK(as_json.code == 1);
  CHECK(json::parse(as_json.err)["code"] == "unavailable");
  CHECK_THAT(json::parse(as_json.err)["error"].get<std::string>(),
             Catch::StartsWith("no coordinator at " + address));
  CHECK(json::parse(Run({"--output=json", "nonsense"}).err)["code"] == "invalid_argument");
}

TEST_CASE("the environment names the coordinator, and its proxies are left alone") {
  FakeCoordinator coordinator;
  coordinator.job = JobIn(v1::JOB_STATE_DONE);
  setenv("http_proxy", "http://127.0.0.1:1", 1);
  setenv("https_proxy", "http://127.0.0.1:1", 1);
  setenv("MEDLEY_COORDINATOR", coordinator.address().c_str(), 1);
  const Outcome outcome = Run({"status", "bible-1"});
  setenv("MEDLEY_COORDINATOR", "http://x", 1);
  const Outcome wrong = Run({"status"});
  for (const char* name : {"http_proxy", "https_proxy", "MEDLEY_COORDINATOR"}) unsetenv(name);
  CHECK(outcome.code == 0);
  CHECK_THAT(outcome.out, Catch::Contains("bible-1"));
  CHECK(wrong.err == "medley: MEDLEY_COORDINATOR: \"http://x\": write HOST:PORT, without http://\n");
}

TEST_CASE("where no node is live, none is fit") {
  FakeCoordinator coordinator;
  const Outcome outcome = Ask(coordinator, {"check"});
  CHECK(outcome.code == 1);
  CHECK(outcome.err == "medley: no node is live: none was checked\n");
}

TEST_CASE("a file that cannot be is refused before anything is asked") {
  FakeCoordinator coordinator;
  const std::string file = "/no/such/folder/x";
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"backup", file}, {"debug", "bundle", "-o", file}, {"trace", "x", "-o", file}}) {
    const Outcome outcome = Ask(coordinator, words);
    CHECK(outcome.code == 2);
    CHECK_THAT(outcome.err, Catch::Contains(" /no/such/folder/x: there is no folder /no/such/folder\n"));
  }
  CHECK(coordinator.Seen().empty());
}

TEST_CASE("an answer that cannot be written is a failure") {
  FakeCoordinator coordinator;
  coordinator.job = JobIn(v1::JOB_STATE_DONE);
  const Outcome outcome = Run({"--coordinator", coordinator.address(), "status", "bible-1"}, "/dev/full");
  CHECK(outcome.code == 1);
  CHECK_THAT(outcome.err, Catch::StartsWith("medley: cannot write to standard output"));
  CHECK(Ask(coordinator, {"status", "bible-1"}).code == 0);
}

TEST_CASE("what the coordinator itself says is not taken for its absence") {
  FakeCoordinator coordinator;
  coordinator.status = {grpc::StatusCode::UNAVAILABLE, "node a is lost"};
  CHECK(Ask(coordinator, {"status", "x"}).err == "medley: node a is lost\n");
  coordinator.status = {grpc::StatusCode::NOT_FOUND, "no job x"};
  const Outcome outcome = Ask(coordinator, {"resume", "x"});
  CHECK(outcome.code == 1);
  CHECK(outcome.err == "medley: no job x\n");
  // The fake knows nothing of this command.
  CHECK_THAT(Ask(coordinator, {"drain", "a"}).err,
             Catch::Contains("is no coordinator, or one of another version"));
}

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

TEST_CASE("a plan is also written as a page, which alone has the predicted step") {
  FakeCoordinator coordinator;
  const std::string file = TemporaryFile("plan.html");
  const Outcome without = Ask(coordinator, {"explain", "bible-1"});
  CHECK(without.code == 0);
  CHECK(coordinator.Seen()["explain"] == "job_id: \"bible-1\"");
  const Outcome outcome = Ask(coordinator, {"explain", "bible-1", "--html", file});
  CHECK(outcome.code == 0);
  CHECK(outcome.out == without.out);
  CHECK_THAT(outcome.err, Catch::Contains(file));
  CHECK(coordinator.Seen()["explain"] == "job_id: \"bible-1\" with_predicted_step: true");
  std::ifstream in(file);
  const std::string page{std::istreambuf_iterator<char>(in), {}};
  CHECK_THAT(page, Catch::StartsWith("<!doctype html>") && Catch::Contains("\"title\":\"bible-1\"") &&
                       Catch::Contains("a \\u003ckind\\u003e"));
  CHECK(Ask(coordinator, {"explain", "bible-1", "--html", "-"}).out == page);
  const Outcome as_json = Ask(coordinator, {"--output", "json", "explain", "bible-1", "--html", file});
  CHECK(as_json.err.empty());
  CHECK_FALSE(json::parse(as_json.out).contains("predicted_step"));
  // The plan is there all the same.
  const Outcome unwritable = Ask(coordinator, {"explain", "bible-1", "--html", "/proc/plan.html"});
  CHECK(unwritable.code == 1);
  CHECK(unwritable.out == without.out);
  CHECK_THAT(unwritable.err, Catch::Contains("cannot write /proc/plan.html: "));
  // Found out before anything is planned.
  const Outcome nowhere = Ask(coordinator, {"plan", SpecFile(), "--html", "/no/such/folder/plan.html"});
  CHECK(nowhere.code == 2);
  CHECK_THAT(nowhere.err, Catch::Contains("--html /no/such/folder/plan.html"));
  const Outcome folder = Ask(coordinator, {"plan", SpecFile(), "--html", "/proc"});
  CHECK(folder.code == 2);
  CHECK(folder.err == "medley: --html /proc: is a folder, not a file\n");
  CHECK(coordinator.Seen().count("plan") == 0);
}

TEST_CASE("a spec is changed by --set, and errors have its line or the option") {
  FakeCoordinator coordinator;
  coordinator.job = JobIn(v1::JOB_STATE_QUEUED);
  const Outcome outcome =
      Ask(coordinator, {"submit", SpecFile(), "--set", "steps=7", "--set", "optimizer.beta1=0.5"});
  CHECK(outcome.out == "bible-1\n");
  CHECK_THAT(coordinator.Seen()["submit"], Catch::Contains("steps: 7") && Catch::Contains("beta1: 0.5"));
  coordinator.status = {grpc::StatusCode::INVALID_ARGUMENT, "model.gpt2.heads: 5 does not divide hidden, 8"};
  const Outcome refused = Ask(coordinator, {"submit", SpecFile()});
  CHECK(refused.code == 2);
  CHECK(refused.err ==
        absl::StrCat("medley: ", SpecFile(), ":2: model.gpt2.heads: 5 does not divide hidden, 8\n"));
  const Outcome overridden = Ask(coordinator, {"plan", SpecFile(), "--set", "model.gpt2.heads=5"});
  CHECK(overridden.code == 2);
  CHECK(overridden.err ==
        "medley: --set model.gpt2.heads=5: model.gpt2.heads: 5 does not divide hidden, 8\n");
}

TEST_CASE("what a plan is for and may cost goes into its spec, and what is wrong with it names the option") {
  FakeCoordinator coordinator;
  coordinator.status = {grpc::StatusCode::INVALID_ARGUMENT, "constraints.most_devices: 3 is too few"};
  const Outcome refused = Ask(coordinator, {"plan", SpecFile(), "--objective", "cost", "--deadline", "2h",
                                            "--budget-per-hour", "2.5", "--most-devices", "3", "--pareto"});
  CHECK(refused.code == 2);
  CHECK(refused.err == "medley: --most-devices 3: constraints.most_devices: 3 is too few\n");
  CHECK_THAT(coordinator.Seen()["plan"],
             Catch::Contains("objective: OBJECTIVE_COST") && Catch::Contains("deadline_seconds: 7200") &&
                 Catch::Contains("most_price_per_hour: 2.5") && Catch::Contains("most_devices: 3") &&
                 Catch::Contains("with_pareto: true"));
  CHECK_THAT(Ask(coordinator, {"plan", SpecFile(), "--budget-per-hour", "1e13"}).err,
             Catch::StartsWith(
                 "medley: --budget-per-hour 1e13: constraints.most_price_per_hour: 10000000000000 is not"));
}

// Two devices of unlike speed and price for the job of SpecFile with micro-batches of 1.
std::string ClusterFile() {
  const std::string file = TemporaryFile("cluster.yaml");
  std::ofstream(file) << R"(
nodes:
  - name: a
    devices:
      - {name: d0, backend: gpu, memory_bytes: 1GiB, kind: fast}
      - {name: d1, backend: gpu, memory_bytes: 1GiB, kind: slow}
kind_prices: [{kind: fast, price_per_hour: 9}, {kind: slow, price_per_hour: 1}]
default_link: {a: any, b: other, latency_seconds: 0, bytes_per_second: 1e9, all_reduce_bytes_per_second: 1e9}
profiles:
  - device_kind: fast
    shape: "gpt2 hidden=8 heads=1 ff=32 vocabulary=256 sequence=8 precision=f32"
    times: [{micro_batch_sequences: 1, layer_forward_seconds: 1, layer_backward_seconds: 2}]
  - device_kind: slow
    shape: "gpt2 hidden=8 heads=1 ff=32 vocabulary=256 sequence=8 precision=f32"
    times: [{micro_batch_sequences: 1, layer_forward_seconds: 2, layer_backward_seconds: 4}]
)";
  return file;
}

// A command about the job with micro-batches of 1.
std::vector<std::string> AboutJob(const std::string& command, std::vector<std::string> more) {
  more.insert(more.begin(), {command, SpecFile(), "--set", "constraints.micro_batch_sizes=[1]"});
  return more;
}

// On that cluster, without a coordinator.
Outcome PlanOffline(std::vector<std::string> more) {
  more.insert(more.end(), {"--cluster", ClusterFile()});
  return Run(AboutJob("plan", std::move(more)));
}
Outcome AskWhatIfOffline(std::vector<std::string> more) {
  more.insert(more.end(), {"--today", ClusterFile()});
  return Run(AboutJob("what-if", std::move(more)));
}

TEST_CASE("a plan for a file is chosen for its cost, for a budget, or told with all there is between") {
  const Outcome all = PlanOffline({"--pareto"});
  CHECK(all.code == 0);
  CHECK_THAT(all.out, Catch::Contains("\n10.00 an hour, ") &&
                          Catch::Contains("for the job's 10 steps (3 min 0") &&
                          Catch::Contains("\nfast x 1 + slow x 1  yes") && Catch::Contains("\nfast x 1 ") &&
                          Catch::Contains("\nslow x 1 ") &&
                          Catch::Contains("no other plan is both faster and as cheap as one of these\n"));
  CHECK_THAT(PlanOffline({"--objective", "cost"}).out,
             Catch::Contains("; proven to cost least; ") && Catch::Contains("\n1.00 an hour, "));
  CHECK_THAT(PlanOffline({"--objective", "cost", "--deadline", "5m"}).out,
             Catch::Contains("\n10.00 an hour, "));
  CHECK_THAT(PlanOffline({"--budget-per-hour", "9.5"}).out, Catch::Contains("\n9.00 an hour, "));
  CHECK_THAT(PlanOffline({"--most-devices", "1"}).out, Catch::Contains("\n9.00 an hour, "));
  const Outcome poor = PlanOffline({"--budget-per-hour", "0.5"});
  CHECK(poor.code == 1);
  CHECK(poor.err ==
        "medley: constraints.most_price_per_hour: 0.5; nothing fits for so little, the cheapest plan that "
        "was found costs "
        "1 an hour\n");
  const Outcome late = PlanOffline({"--deadline", "1m"});
  CHECK(late.code == 1);
  CHECK_THAT(late.err,
             Catch::StartsWith("medley: constraints.deadline_seconds: 60 (60 s); the fastest plan"));
}

TEST_CASE("what-if plans today's cluster and the changed one, as text or as JSON") {
  const Outcome text = AskWhatIfOffline({"--add", "kind=slow,count=2", "--remove", "a/d0"});
  CHECK(text.code == 0);
  CHECK_THAT(text.out, Catch::StartsWith("removed a/d0\nadded kind=slow,count=2\n\n") &&
                           Catch::Contains("\nprice an hour                  10.00        3.00  -70.0 %\n"));
  const Outcome outcome = AskWhatIfOffline({"--remove", "a/d0", "--output", "json"});
  REQUIRE(outcome.code == 0);
  const json report = json::parse(outcome.out);
  CHECK(report["changes"] == json::array({"removed a/d0"}));
  CHECK(report["today"]["price_per_hour"] == 10);
  CHECK(report["changed"]["price_per_hour"] == 1);
  CHECK(report["figures"][0]["name"] == "tokens_per_second");
  CHECK(report["figures"][0]["difference_percent"].get<double>() < -50);
  const Outcome nothing = AskWhatIfOffline({});
  CHECK(nothing.code == 2);
  CHECK(nothing.err == "medley: what-if: nothing is changed; give --cluster, --remove, --add or --link\n");
  CHECK_THAT(
      AskWhatIfOffline({"--remove", "b"}).err,
      Catch::StartsWith("medley: --remove b: no node or device is \"b\"; there are the kinds fast, slow"));
  CHECK_THAT(AskWhatIfOffline({"--with", ClusterFile()}).err, Catch::Contains("--with"));
}

TEST_CASE("today's cluster is the coordinator's where no file is named, another one is planned beside it") {
  FakeCoordinator coordinator;
  REQUIRE(ReadYamlFile(ClusterFile(), &coordinator.cluster).ToString() == "OK");
  const Outcome less = Ask(coordinator, AboutJob("what-if", {"--remove", "a/d0", "--output", "json"}));
  CAPTURE(less.err);
  REQUIRE(less.code == 0);
  CHECK(coordinator.Seen().count("cluster") == 1);
  CHECK(coordinator.Seen().count("plan") == 0);
  CHECK(json::parse(less.out)["today"]["price_per_hour"] == 10);
  CHECK(json::parse(less.out)["changed"]["price_per_hour"] == 1);

  const std::string other = TemporaryFile("other.yaml");
  v1::ClusterSpec dearer = coordinator.cluster;
  dearer.mutable_kind_prices(1)->set_price_per_hour(3);
  std::ofstream(other) << WriteYaml(dearer);
  const Outcome beside =
      Ask(coordinator, AboutJob("what-if", {"--cluster", other, "--remove", "a/d0", "--add",
                                            "kind=SLOW,count=1", "--output", "json"}));
  CAPTURE(beside.err);
  REQUIRE(beside.code == 0);
  const json report = json::parse(beside.out);
  CHECK(report["changes"] ==
        json::array({absl::StrCat("with ", other), "removed a/d0", "added kind=SLOW,count=1"}));
  CHECK(report["today"]["price_per_hour"] == 10);
  CHECK(report["changed"]["price_per_hour"] == 6);
  // With a file of today's there is nobody to ask.
  coordinator.Stop();
  CHECK(AskWhatIfOffline({"--cluster", other}).code == 0);
  const Outcome nobody = Ask(coordinator, AboutJob("what-if", {"--cluster", other}));
  CHECK(nobody.code == 1);
  CHECK_THAT(nobody.err, Catch::StartsWith("medley: no coordinator at "));
}

TEST_CASE("a cluster is written as a file in which nodes that are alike are one group") {
  FakeCoordinator coordinator;
  for (const char* name : {"n08", "n09", "n11"}) {
    v1::Node& node = *coordinator.cluster.add_nodes();
    node.set_name(name);
    node.set_host(absl::StrCat("machine of ", name));
    node.set_seconds_since_renewal(0.1 * coordinator.cluster.nodes_size());
    v1::Device& device = *node.add_devices();
    device.set_name("gpu0");
    device.set_backend("cuda");
    device.set_kind("A100");
  }
  CHECK(Ask(coordinator, {"nodes", "--output", "cluster"}).out ==
        "node_groups:\n"
        "  - name: \"n[08-09,11]\"\n"
        "    count: 3\n"
        "    devices:\n"
        "      - name: gpu0\n"
        "        backend: cuda\n"
        "        kind: A100\n");
}

TEST_CASE(
    "nothing is asked of a coordinator where nothing is changed, and what it has not measured is told") {
  FakeCoordinator coordinator;
  CHECK(Ask(coordinator, AboutJob("what-if", {})).code == 2);
  CHECK(coordinator.Seen().count("cluster") == 0);
  CHECK(Ask(coordinator, AboutJob("what-if", {"--add", "kind=L4,count=1"})).err ==
        "medley: today's cluster: nodes: there are none, and no node_groups; at least one of either is "
        "needed\n");
  REQUIRE(ReadYamlFile(ClusterFile(), &coordinator.cluster).ToString() == "OK");
  coordinator.cluster.mutable_profiles()->RemoveLast();
  const Outcome unmeasured = Ask(coordinator, AboutJob("what-if", {"--add", "kind=L4,count=1"}));
  CHECK(unmeasured.code == 1);
  CHECK_THAT(unmeasured.err, Catch::StartsWith("medley: no profile for shape ") &&
                                 Catch::EndsWith(absl::StrCat("; `medley plan ", SpecFile(),
                                                              "` measures what is missing\n")));
  coordinator.status = {grpc::StatusCode::PERMISSION_DENIED, "not for you"};
  CHECK_THAT(Ask(coordinator, AboutJob("what-if", {"--add", "kind=L4,count=1"})).err,
             Catch::Contains("not for you"));
}

TEST_CASE("data sheets are found where they are, for what is added alone, unless others are named") {
  const Outcome added = AskWhatIfOffline({"--add", "kind=L4,count=2", "--output", "json"});
  CAPTURE(added.err);
  REQUIRE(added.code == 0);
  const json report = json::parse(added.out);
  bool has_l4 = false;
  for (const json& device : report["changed"]["devices"]) has_l4 = has_l4 || device["kind"] == "L4-24";
  CHECK(has_l4);
  CHECK_THAT(AskWhatIfOffline({"--add", "kind=A100,count=2"}).err,
             Catch::Contains("\"A100\" may be A100-40, A100-80; name one of them"));
  CHECK(AskWhatIfOffline({"--add", "kind=L4,count=2", "--kinds", "/nowhere"}).err ==
        "medley: --add kind=L4,count=2: --kinds: \"/nowhere\" is not a directory\n");
}

TEST_CASE("Ctrl-C ends a plan, at the coordinator too, with 130") {
  BlockInterrupts();
  FakeCoordinator coordinator;
  const Outcome outcome = Ask(coordinator, {"plan", SpecFile()});
  CHECK(outcome.code == 130);
  CHECK(outcome.err == "medley: interrupted; nothing was started\n");
  coordinator.Stop();  // waits for its calls
  CHECK(coordinator.plan_cancelled);
}

TEST_CASE("a time limit of planning goes to the coordinator, which says when it was too short") {
  FakeCoordinator coordinator;
  coordinator.status = {grpc::StatusCode::DEADLINE_EXCEEDED, "the time limit of 2.5 s passed"};
  const Outcome outcome = Ask(coordinator, {"plan", SpecFile(), "--time-limit", "2.5"});
  CHECK(outcome.code == 1);
  CHECK_THAT(outcome.err, Catch::Contains("the time limit of 2.5 s passed"));
  CHECK_THAT(coordinator.Seen()["plan"], Catch::Contains("time_limit_seconds: 2.5"));
  CHECK(Ask(coordinator, {"plan", SpecFile(), "--time-limit", "0"}).code == 2);
}

TEST_CASE("a backup is its owner's alone to read, as what the coordinator has is an admin's to ask for") {
  FakeCoordinator coordinator;
  const std::string file = TemporaryFile("backup.db");
  std::filesystem::remove(file);
  CHECK(Ask(coordinator, {"backup", file}).code == 0);
  CHECK(std::filesystem::file_size(file) == std::string("a store").size());
  CHECK(std::filesystem::status(file).permissions() ==
        (std::filesystem::perms::owner_read | std::filesystem::perms::owner_write));
}

TEST_CASE("what plans, measures or copies ends when it has ended, or by a timeout that was asked for") {
  FakeCoordinator coordinator;
  coordinator.status = {grpc::StatusCode::FAILED_PRECONDITION, "not here"};
  const std::vector<std::vector<std::string>> calls = {{"plan", SpecFile(), "--time-limit", "1800"},
                                                       {"explain", "bible-1"},
                                                       {"replan", "bible-1"},
                                                       {"backup", TemporaryFile("store.db")},
                                                       {"links", "--refresh"}};
  for (const std::vector<std::string>& call : calls) {
    CAPTURE(call);
    CHECK(Ask(coordinator, call).code == 1);
    CHECK_FALSE(coordinator.limit().has_value());
  }
  // Of the same seconds, but asked for.
  for (const std::vector<std::string>& call : calls) {
    CAPTURE(call);
    std::vector<std::string> words = {"--timeout", "10"};
    words.insert(words.end(), call.begin(), call.end());
    CHECK(Ask(coordinator, words).code == 1);
    REQUIRE(coordinator.limit().has_value());
    const absl::Duration most = call.front() == "plan"    ? absl::Minutes(35)
                                : call.front() == "links" ? absl::Hours(1)
                                                          : absl::Minutes(5);
    CHECK(*coordinator.limit() <= most * 1.02);  // gRPC sends it rounded up by a hundredth
    CHECK(*coordinator.limit() > most - absl::Minutes(5));
  }
  // Not what answers at once.
  CHECK(Ask(coordinator, {"links"}).code == 1);
  REQUIRE(coordinator.limit().has_value());
  CHECK(*coordinator.limit() <= absl::Seconds(10) * 1.02);
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
}

TEST_CASE("a bundle has all of each of the newest jobs, which their list has not") {
  FakeCoordinator coordinator;
  coordinator.job = JobIn(v1::JOB_STATE_DONE);
  const Outcome outcome = Ask(coordinator, {"debug", "bundle", "-o", TemporaryFile("bundle.tar.gz")});
  CAPTURE(outcome.err);
  CHECK(outcome.code == 0);
  CHECK(coordinator.Seen()["get"] == "job_id: \"bible-1\"");
}

TEST_CASE("logs are followed until the job has ended, each line once") {
  FakeCoordinator coordinator;
  coordinator.job = JobIn(v1::JOB_STATE_RUNNING);
  int looks = 0;
  coordinator.change_on_look = [&](v1::Job& job) {
    v1::LogLine& line = *coordinator.logs.add_lines();
    line.set_number(++looks);
    line.set_text(absl::StrCat("line ", looks));
    if (looks == 3) job.set_state(v1::JOB_STATE_DONE);
  };
  const Outcome outcome = Ask(coordinator, {"logs", "bible-1", "--follow"});
  CHECK(outcome.code == 0);
  CHECK_THAT(outcome.out, Catch::Matches("-  +line 1\n-  +line 2\n-  +line 3\n"));
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

TEST_CASE("one node is shown with its profiles, an unknown one names those that there are") {
  FakeCoordinator coordinator;
  for (const char* name : {"a", "b"}) {
    v1::Node& node = *coordinator.nodes.add_nodes();
    node.set_name(name);
    node.add_devices()->set_kind(absl::StrCat("kind of ", name));
    coordinator.nodes.add_profiles()->set_device_kind(absl::StrCat("kind of ", name));
  }
  CHECK_THAT(Ask(coordinator, {"nodes", "b"}).out,
             Catch::Contains("kind of b") && !Catch::Contains("kind of a"));
  const Outcome unknown = Ask(coordinator, {"nodes", "c"});
  CHECK(unknown.code == 1);
  CHECK(unknown.err == "medley: no node c; there are: a, b\n");
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
