#include "cli/plan_page.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cli/offline_plan.h"
#include "cli/page_text.h"
#include "cli/plan_data.h"
#include "nlohmann/json.hpp"
#include "runtime/wire/yaml_message.h"

namespace medley {
namespace {

using nlohmann::json;

// Two devices of kind "fast" that do the same, and a pipeline of two of kind "slow" beside them.
constexpr const char* kJob = R"(
name: page
model: {gpt2: {layers: 2, hidden: 256, heads: 8, vocabulary: 256, context: 256}}
data: {train: /data/train.txt, format: text}
batch: {sequences: 12, sequence_length: 256}
steps: 10
optimizer: {learning_rate: 1e-3}
plan:
  micro_batch_sequences: 1
  units:
    - {devices: [s/d0], blocks: [{first: 0, end: 2}]}
    - {devices: [s/d1], blocks: [{first: 2, end: 4}]}
    - {devices: [f/d0], blocks: [{first: 0, end: 4}]}
    - {devices: [f/d1], blocks: [{first: 0, end: 4}]}
  routes:
    - {units: [0, 1], micro_batches: 4}
    - {units: [2], micro_batches: 4}
    - {units: [3], micro_batches: 4}
)";
constexpr const char* kCluster = R"(
nodes:
  - name: f
    devices:
      - {name: d0, backend: gpu, memory_bytes: 4GiB, kind: fast}
      - {name: d1, backend: gpu, memory_bytes: 4GiB, kind: fast}
  - name: s
    devices:
      - {name: d0, backend: gpu, memory_bytes: 1GiB, kind: slow}
      - {name: d1, backend: gpu, memory_bytes: 1GiB, kind: slow}
profiles:
  - device_kind: fast
    shape: "gpt2 hidden=256 heads=8 ff=1024 vocabulary=256 sequence=256 precision=f32"
    times: [{micro_batch_sequences: 1, layer_forward_seconds: 0.01, layer_backward_seconds: 0.02,
             head_forward_seconds: 0.004, head_backward_seconds: 0.008}]
    update_seconds_per_parameter: 1e-10
  - device_kind: slow
    shape: "gpt2 hidden=256 heads=8 ff=1024 vocabulary=256 sequence=256 precision=f32"
    times: [{micro_batch_sequences: 1, layer_forward_seconds: 0.03, layer_backward_seconds: 0.06,
             head_forward_seconds: 0.01, head_backward_seconds: 0.02}]
    update_seconds_per_parameter: 1e-9
default_link: {a: any, b: other, latency_seconds: 1e-5, bytes_per_second: 1e9, all_reduce_bytes_per_second: 1e9}
)";

v1::PlanReport Report() {
  v1::PlanJobRequest request;
  request.set_with_predicted_step(true);
  v1::ClusterSpec cluster;
  REQUIRE(ReadYaml(kJob, "job", request.mutable_spec()).ToString() == "OK");
  REQUIRE(ReadYaml(kCluster, "cluster", &cluster).ToString() == "OK");
  const absl::StatusOr<v1::PlanReport> report = PlanOffline(request, cluster);
  REQUIRE(report.status().ToString() == "OK");
  return *report;
}

// The data in a page, as a browser finds it: up to the first end of a script.
json DataIn(const std::string& page) {
  const std::string opening = "<script type=\"application/json\" id=\"plan\">";
  const size_t begin = page.find(opening) + opening.size();
  return json::parse(page.substr(begin, page.find("</script", begin) - begin));
}

TEST_CASE("the page has every instruction of every lane at its predicted time") {
  const v1::PlanReport report = Report();
  const json data = DataIn(PlanPage("page", report));
  CHECK(data["title"] == "page");
  CHECK(data["step_seconds"] == report.predicted_step_seconds());
  CHECK(data["price"] == "");
  const double tick_seconds = data["tick_seconds"];
  CHECK(tick_seconds <= report.predicted_step_seconds() * 1e-9);
  const auto& lanes = report.predicted_step().lanes();
  REQUIRE(lanes.size() >= 3);
  REQUIRE(data["lanes"].size() == static_cast<size_t>(lanes.size()));
  std::set<std::string> devices;
  for (int l = 0; l < lanes.size(); ++l) {
    const json& lane = data["lanes"][l];
    CHECK(lane["kind"] == lanes[l].kind());
    CHECK(lane["left_out"] == false);
    for (int d = 0; d < lanes[l].devices_size(); ++d) {
      CHECK(lane["devices"][d]["name"] == lanes[l].devices(d).device());
      CHECK(lane["devices"][d]["first_micro_batch"] == lanes[l].devices(d).first_micro_batch());
      CHECK(devices.insert(lanes[l].devices(d).device()).second);
    }
    REQUIRE(lane["instructions"].size() == static_cast<size_t>(lanes[l].instructions_size()));
    for (int i = 0; i < lanes[l].instructions_size(); ++i) {
      const v1::PredictedInstruction& predicted = lanes[l].instructions(i);
      const json& shown = lane["instructions"][i];
      const json& what = data["whats"][shown[0].get<size_t>()];
      CHECK(what["kind"] == predicted.kind());
      CHECK(what["stream"] == predicted.stream());
      CHECK(what["bytes"] == predicted.bytes());
      CHECK(what.contains("blocks") == predicted.has_blocks());
      if (predicted.has_blocks())
        CHECK(what["blocks"] == json{predicted.blocks().first(), predicted.blocks().end()});
      CHECK(shown[1] == predicted.micro_batch());
      const double start_seconds = shown[2].get<double>() * tick_seconds;
      CHECK(std::abs(start_seconds - predicted.start_seconds()) <= tick_seconds);
      CHECK(std::abs(start_seconds + shown[3].get<double>() * tick_seconds - predicted.end_seconds()) <=
            tick_seconds);
    }
    REQUIRE(lane["memory"].size() == static_cast<size_t>(lanes[l].memory_size()));
    for (int i = 0; i < lanes[l].memory_size(); ++i) {
      CHECK(lane["memory"][i][1] == lanes[l].memory(i).activation_bytes());
      CHECK(lane["memory"][i][2] == lanes[l].memory(i).boundary_bytes());
    }
  }
  CHECK(devices.size() == 4);
  // The classes are those that the page's script has colours for.
  std::set<std::string> classes;
  for (const json& what : data["whats"]) classes.insert(what["class"].get<std::string>());
  CHECK(classes == std::set<std::string>{"backward", "forward", "receive", "send", "sum", "update"});
  for (const std::string& name : classes)
    CHECK(absl::StrContains(PageAfterData(), absl::StrCat("[\"", name, "\", ")));
}

TEST_CASE("the page has what is said of devices and of other plans") {
  const v1::PlanReport report = Report();
  const json data = PlanData("page", report);
  REQUIRE(data["devices"].size() == 4);
  for (int d = 0; d < 4; ++d) {
    const json& device = data["devices"][d];
    const v1::DeviceShare& share = report.devices(d);
    CHECK(device["name"] == share.device());
    CHECK(device["busy"] == share.busy_share());
    CHECK(device["peak"] == share.peak_memory_bytes());
    CHECK(device["limit"] == share.memory_limit_bytes());
    CHECK(device["memory"]["weights"] == share.memory().parameter_bytes());
    CHECK(device["memory"]["activations"] == share.memory().activation_bytes());
    CHECK(device["memory"]["windows"] == 0);
    CHECK(device["memory"]["host_limit"] == share.memory().host_limit_bytes());
    const json blocks = share.device() == "s/d0"   ? json{{0, 2}}
                        : share.device() == "s/d1" ? json{{2, 4}}
                                                   : json{{0, 4}};
    CHECK(device["blocks"] == blocks);
  }
  CHECK(data["bubble_share"] == report.bubble_share());
  CHECK(data["bottleneck"] == report.bottleneck());
  CHECK(data["reductions"] == report.reductions());
  CHECK(data["quality"] == "named by the job");
  CHECK_THAT(data["error"].get<std::string>(), Catch::Contains("nine of ten"));
  CHECK(data["rejected"].size() == static_cast<size_t>(report.rejected_size()));
  REQUIRE(report.rejected_size() > 0);
  CHECK(data["rejected"][0]["why"] == report.rejected(0).why_slower());
}

TEST_CASE("the page has plans of time against price") {
  v1::PlanReport report = Report();
  CHECK(PlanData("page", report)["pareto"].empty());
  v1::ParetoPlan& plan = *report.add_pareto();
  v1::KindCount& count = *plan.add_devices();
  count.set_kind("<b>fast</b>");
  count.set_devices(2);
  plan.set_predicted_step_seconds(0.5);
  plan.set_price_per_hour(7.2);
  plan.set_job_seconds(3600);
  plan.set_job_cost(7.2);
  plan.set_chosen(true);
  const json data = DataIn(PlanPage("page", report));
  REQUIRE(data["pareto"].size() == 1);
  CHECK(data["pareto"][0]["devices"] == json::array({json::array({"<b>fast</b>", 2})}));
  CHECK(data["pareto"][0]["price"] == "7.20");
  CHECK(data["pareto"][0]["duration"] == "1 h 00 min");
  CHECK(data["pareto"][0]["chosen"] == true);
  CHECK(data["pareto_complete"] == false);
}

TEST_CASE("a report without a predicted step is a page, too") {
  v1::PlanReport report = Report();
  report.clear_predicted_step();
  const json data = DataIn(PlanPage("page", report));
  CHECK(data["has_predicted_step"] == false);
  CHECK(data["lanes"].empty());
  CHECK(DataIn(PlanPage("", v1::PlanReport()))["devices"].empty());
}

TEST_CASE("a page of as much as a coordinator tells stays below 5 MB") {
  v1::PlanReport report = Report();
  const double step_seconds = report.predicted_step_seconds();
  v1::PredictedLane& lane = *report.mutable_predicted_step()->mutable_lanes(0);
  lane.clear_instructions();
  lane.clear_memory();
  constexpr int kToldOfEach = 50'000;
  for (int i = 0; i < kToldOfEach; ++i) {
    v1::PredictedInstruction& instruction = *lane.add_instructions();
    instruction.set_kind(absl::StrCat("fetch parameters of layer ", i % 100));
    instruction.set_micro_batch(i);
    instruction.set_start_seconds(step_seconds * (1 - 1e-9 * i) / 2);
    instruction.set_end_seconds(step_seconds * (1 - 1e-9 * i));
    v1::PredictedMemoryUse& use = *lane.add_memory();
    use.set_from_seconds(step_seconds * (1 - 1e-9 * i));
    use.set_activation_bytes(uint64_t{1} << 40);
    use.set_boundary_bytes(uint64_t{1} << 40);
  }
  const std::string page = PlanPage("page", report);
  CHECK(page.size() < 5'000'000);
  CHECK(DataIn(page)["lanes"][0]["instructions"].size() == kToldOfEach);
}

TEST_CASE("names end no script, begin no markup, and come back as they were") {
  const std::string name =
      GENERATE(as<std::string>(), "</script><script>alert(1)</script>", "</ScRiPt >", "<!-- <script>",
               "a & b 'c' \"d\"", "line\xe2\x80\xa8separator", "\\u003c/script\\u003e", "tab\tnew line\n");
  CAPTURE(name);
  v1::PlanReport report = Report();
  report.mutable_devices(0)->set_device(name);
  report.mutable_devices(0)->set_kind(name);
  report.set_bottleneck(name);
  report.mutable_predicted_step()->mutable_lanes(0)->mutable_devices(0)->set_device(name);
  report.mutable_predicted_step()->mutable_lanes(0)->mutable_instructions(0)->set_kind(name);
  const std::string page = PlanPage(name, report);
  const std::string text =
      page.substr(PageBeforeData().size(), page.size() - PageBeforeData().size() - PageAfterData().size());
  for (const unsigned char c : text) CHECK((c >= 0x20 && c < 0x7f && c != '<' && c != '>' && c != '&'));
  const json data = DataIn(page);
  CHECK(data["title"] == name);
  CHECK(data["bottleneck"] == name);
  CHECK(data["devices"][0]["name"] == name);
  CHECK(data["lanes"][0]["devices"][0]["name"] == name);
}

TEST_CASE("what is no UTF-8 or no number is no end of the page") {
  v1::PlanReport report = Report();
  report.mutable_devices(0)->set_device("a\xff");
  report.set_predicted_step_seconds(std::numeric_limits<double>::quiet_NaN());
  const json data = DataIn(PlanPage("page", report));
  CHECK(data["devices"][0]["name"] == "a\xef\xbf\xbd");
}

TEST_CASE("the page refers to nothing outside, and its script makes no markup of texts") {
  const std::string page = absl::StrCat(PageBeforeData(), PageAfterData());
  for (const std::string outside :
       {"http:", "https:", "src=", "url(", "import(", "@import", "fetch(", "XMLHttpRequest", "WebSocket"})
    CHECK_THAT(page, !Catch::Contains(outside));
  for (const std::string markup :
       {"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function("})
    CHECK_THAT(page, !Catch::Contains(markup));
  CHECK(absl::StrContains(page, "default-src 'none'"));
  // Every element that the script asks for by its name is there.
  size_t found = 0;
  for (size_t at = page.find("byId(\""); at != std::string::npos; at = page.find("byId(\"", at + 1)) {
    const size_t begin = at + 6;
    const std::string id = page.substr(begin, page.find('"', begin) - begin);
    CAPTURE(id);
    CHECK(absl::StrContains(PageBeforeData(), absl::StrCat("id=\"", id, "\"")) !=
          absl::StrContains(PageAfterData(), absl::StrCat(" id=\"", id, "\"")));
    ++found;
  }
  CHECK(found > 20);
}

}  // namespace
}  // namespace medley
