// Commands about a job's spec: plan, submit, explain, what-if.
#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "cli/command_line_under_test.h"
#include "cli/interrupts.h"
#include "nlohmann/json.hpp"
#include "runtime/wire/yaml_message.h"

namespace medley {
namespace {

using nlohmann::json;

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

TEST_CASE("a model that is not there is told with its field and place, also without a coordinator") {
  const std::string spec = TemporaryFile("hugging-face.yaml");
  std::ofstream(spec) << "name: bible\n"
                         "model: {hugging_face: /nowhere/model}\n"
                         "data: {train: /x.txt}\n"
                         "batch: {sequences: 8, sequence_length: 8}\n"
                         "steps: 10\n";
  const Outcome outcome = Run({"plan", spec, "--cluster", ClusterFile()});
  CHECK(outcome.code == 2);
  CHECK_THAT(outcome.err, Catch::StartsWith(absl::StrCat("medley: ", spec, ":2: model.hugging_face: ")));
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

}  // namespace
}  // namespace medley
