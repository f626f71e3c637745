// What the command line says by itself, and of a coordinator that it does not reach or that refuses.
#include <catch2/catch.hpp>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "cli/command_line_under_test.h"
#include "nlohmann/json.hpp"

namespace medley {
namespace {

using nlohmann::json;

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
      Wrong{{"certs", "isue", "d"}, "no command \"certs isue\"; did you mean \"certs issue\"?"},
      Wrong{{"--output", "text", "jobs", "bible-1"},
            "no command \"jobs bible-1\"; medley jobs --help lists them"},
      Wrong{{"debug"}, "no command; medley debug --help lists them"},
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
    for (const char* wanted : {"status", "replan", "force", "resume", "revoke", "older-than"})
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
  CHECK_THAT(Ask(coordinator, {"undrain", "a"}).err,
             Catch::Contains("is no coordinator, or one of another version"));
}

}  // namespace
}  // namespace medley
