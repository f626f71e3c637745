#include "cli/what_if.h"

#include <catch2/catch.hpp>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cli/offline_plan.h"
#include "cli/what_if_view.h"
#include "runtime/wire/yaml_message.h"

namespace medley {
namespace {

using Catch::Contains;

constexpr const char* kJob = R"(
name: what-if
model: {gpt2: {layers: 4, hidden: 256, heads: 8, vocabulary: 256, context: 256}}
data: {train: /data/train.txt, format: text}
batch: {sequences: 8, sequence_length: 256}
steps: 1000
constraints: {micro_batch_sizes: [1]}
)";
constexpr const char* kProfile = R"(
    shape: "gpt2 hidden=256 heads=8 ff=1024 vocabulary=256 sequence=256 precision=f32"
    times: [{micro_batch_sequences: 1, layer_forward_seconds: 0.01, layer_backward_seconds: 0.02,
             head_forward_seconds: 0.004, head_backward_seconds: 0.008}]
)";
constexpr const char* kNodes = R"(
nodes:
  - name: a-1
    site: north
    devices:
      - {name: d0, backend: gpu, memory_bytes: 4GiB, kind: "fast, two cores", price_per_hour: 2}
      - {name: d1, backend: gpu, memory_bytes: 4GiB, kind: "fast, two cores", price_per_hour: 2}
  - name: b-2
    site: south
    devices:
      - {name: d0, backend: gpu, memory_bytes: 4GiB, kind: slow, price_per_hour: 0.5}
link_classes:
  - {level: node, latency_seconds: 1e-6, bytes_per_second: 1e10}
  - {level: site, latency_seconds: 1e-5, bytes_per_second: 1e9}
  - {level: sites, latency_seconds: 1e-3, bytes_per_second: 1e7}
)";

v1::PlanJobRequest Request() {
  v1::PlanJobRequest request;
  REQUIRE(ReadYaml(kJob, "job", request.mutable_spec()).ToString() == "OK");
  return request;
}

v1::ClusterSpec Today() {
  const std::string text = absl::StrCat(kNodes, "profiles:\n  - device_kind: \"fast, two cores\"", kProfile,
                                        "  - device_kind: slow", kProfile);
  v1::ClusterSpec cluster;
  REQUIRE(ReadYaml(text, "cluster", &cluster).ToString() == "OK");
  return cluster;
}

const v1::WhatIfFigure& FigureOf(const v1::WhatIfReport& report, const std::string& name,
                                 const std::string& kind = "") {
  for (const v1::WhatIfFigure& figure : report.figures())
    if (figure.name() == name && figure.kind() == kind) return figure;
  FAIL("there is no figure " << name << " " << kind);
  return report.figures(0);
}

TEST_CASE("both plans are those of their clusters, and their figures differ by what is said") {
  const absl::StatusOr<v1::WhatIfReport> report =
      AnswerWhatIf(Request(), Today(), {.adds = {"kind=fast, two cores,count=2,node=new"}});
  REQUIRE(report.status().ToString() == "OK");
  const absl::StatusOr<v1::PlanReport> today = PlanOffline(Request(), Today());
  v1::ClusterSpec larger = Today();
  v1::Node& node = *larger.add_nodes();
  node = larger.nodes(0);
  node.set_name("new");
  const absl::StatusOr<v1::PlanReport> changed = PlanOffline(Request(), larger);
  REQUIRE(today.ok());
  REQUIRE(changed.ok());
  CHECK(report->today().description() == today->description());
  CHECK(report->changed().description() == changed->description());
  CHECK(report->changed().predicted_step_seconds() == changed->predicted_step_seconds());
  CHECK(report->changed().predicted_step_seconds() < report->today().predicted_step_seconds());

  const v1::WhatIfFigure& speed = FigureOf(*report, "tokens_per_second");
  CHECK(speed.today() == today->predicted_tokens_per_second());
  CHECK(speed.changed() == changed->predicted_tokens_per_second());
  CHECK(speed.difference_percent() == Approx((speed.changed() / speed.today() - 1) * 100));
  CHECK(FigureOf(*report, "price_per_hour").changed() == changed->price_per_hour());
  const v1::WhatIfFigure &used = FigureOf(*report, "devices_used", "fast, two cores"),
                         &memory = FigureOf(*report, "peak_memory_bytes", "fast, two cores");
  CHECK(used.today() == 2);
  CHECK(used.changed() == 4);
  CHECK(memory.today() > 1e6);
  // The file has no runs.
  CHECK(report->today().prediction_error().wide() > 0);
  CHECK(report->today().prediction_error().basis() == v1::PREDICTION_BASIS_MEASURED_DEVICES);
  CHECK(report->today().prediction_error().live_runs() == 0);
}

TEST_CASE("both plans learn how far they may be off from the runs of their clusters") {
  v1::ClusterSpec today = Today();
  for (int i = 0; i < 12; ++i) {
    v1::LiveError& error = *today.add_live_errors();
    error.add_device_kinds("fast, two cores");
    error.set_error(0.01);
  }
  const WhatIfChanges grows{.adds = {"kind=fast, two cores,count=2,node=new"}};
  const absl::StatusOr<v1::WhatIfReport> report = AnswerWhatIf(Request(), today, grows);
  REQUIRE(report.status().ToString() == "OK");
  for (const v1::PlanReport& plan : {report->today(), report->changed()}) {
    CHECK(plan.prediction_error().live_runs() == 12);
    CHECK(plan.prediction_error().wide() == Approx(0.01));
  }
  WhatIfChanges replaced = grows;
  replaced.other = Today();
  const absl::StatusOr<v1::WhatIfReport> other = AnswerWhatIf(Request(), today, replaced);
  REQUIRE(other.status().ToString() == "OK");
  CHECK(other->today().prediction_error().live_runs() == 12);
  CHECK(other->changed().prediction_error().live_runs() == 0);
}

TEST_CASE("the report is shown as a table of both") {
  v1::WhatIfReport report;
  report.add_changes("added kind=L4,count=1");
  report.mutable_today()->set_bottleneck("device: a/d0");
  report.mutable_today()->set_proven_optimal(true);
  report.mutable_changed()->set_bottleneck("link: a/d0");
  const auto add = [&](const char* name, const char* kind, double today, double changed) {
    v1::WhatIfFigure& figure = *report.add_figures();
    figure.set_name(name);
    figure.set_kind(kind);
    figure.set_today(today);
    figure.set_changed(changed);
    if (today > 0) figure.set_difference_percent((changed / today - 1) * 100);
  };
  add("tokens_per_second", "", 8000, 10000);
  add("price_per_hour", "", 4, 3);
  add("devices_used", "L4", 0, 1);
  add("peak_memory_bytes", "A100", 1 << 30, 1 << 29);
  CHECK(FormatWhatIf(report) ==
        "added kind=L4,count=1\n"
        "\n"
        "                      TODAY    CHANGED  DIFFERENCE\n"
        "tokens/s               8.0k      10.0k  +25.0 %\n"
        "price an hour          4.00       3.00  -25.0 %\n"
        "devices in use, L4        0          1\n"
        "most memory, A100   1.0 GiB  512.0 MiB  -50.0 %\n"
        "\n"
        "today: bound by device: a/d0; proven optimal\n"
        "changed: bound by link: a/d0; best found\n");
  report.mutable_changed()->mutable_prediction_error()->set_usual(0.11);
  report.mutable_changed()->mutable_prediction_error()->set_wide(0.14);
  CHECK_THAT(FormatWhatIf(report),
             Contains("best found; its step is within 11 % two times of three, 14 % nine of ten (published "
                      "measurements)\n"));
}

TEST_CASE("devices are removed and links changed by names that have dashes themselves") {
  const absl::StatusOr<ChangedCluster> smaller = ChangeCluster(Today(), {.removes = {"b-2"}});
  REQUIRE(smaller.ok());
  CHECK(smaller->cluster.nodes_size() == 1);
  for (const char* link :
       {"a-1-b-2=10Gbit,50us", "north-south=10Gbit,50us", "fast, two cores-slow=1.25GB/s,0.05ms"}) {
    CAPTURE(link);
    const absl::StatusOr<v1::WhatIfReport> report = AnswerWhatIf(Request(), Today(), {.links = {link}});
    REQUIRE(report.status().ToString() == "OK");
    CHECK(FigureOf(*report, "step_seconds").difference_percent() < -1);
  }
  const absl::StatusOr<v1::WhatIfReport> other =
      AnswerWhatIf(Request(), Today(), {.other = smaller->cluster, .other_name = "x"});
  REQUIRE(other.ok());
  CHECK(other->changes(0) == "with x");
  CHECK(FigureOf(*other, "devices_left_out", "slow").changed() == 0);
}

TEST_CASE("a way between two of three sites is changed, and others are not") {
  v1::ClusterSpec three = Today();
  v1::Node& west = *three.add_nodes();
  west = three.nodes(1);
  west.set_name("c-3");
  west.set_site("west");
  v1::LinkClass& to_west = *three.add_link_classes();
  to_west = three.link_classes(2);
  to_west.set_a_site("west");
  const absl::StatusOr<ChangedCluster> changed = ChangeCluster(three, {.links = {"north-south=10Gbit,50us"}});
  REQUIRE(changed.status().ToString() == "OK");
  REQUIRE(changed->cluster.link_classes_size() == 5);
  CHECK(changed->cluster.link_classes(3).a_site() == "west");
  CHECK_FALSE(changed->cluster.link_classes(3).has_b_site());
  const v1::LinkClass& link = changed->cluster.link_classes(4);
  CHECK(link.level() == v1::LINK_LEVEL_SITES);
  CHECK(link.a_site() == "north");
  CHECK(link.b_site() == "south");
  CHECK(link.bytes_per_second() == Approx(1.25e9));

  v1::PlanJobRequest request = Request();
  for (const char* device : {"a-1/d0", "a-1/d1", "b-2/d0"})
    request.mutable_spec()->mutable_constraints()->add_devices(device);
  const auto difference = [&](const std::string& text) {
    const absl::StatusOr<v1::WhatIfReport> report = AnswerWhatIf(request, three, {.links = {text}});
    REQUIRE(report.status().ToString() == "OK");
    return FigureOf(*report, "step_seconds").difference_percent();
  };
  CHECK(difference("north-south=10Gbit,50us") < -1);
  CHECK(difference("west-south=10Gbit,50us") == Approx(0).margin(1e-6));

  // Without a node at a site the classes of its ways are gone, too.
  const absl::StatusOr<ChangedCluster> two = ChangeCluster(three, {.removes = {"c-3"}});
  REQUIRE(two.status().ToString() == "OK");
  CHECK(two->cluster.link_classes_size() == 3);
  CHECK(AnswerWhatIf(Request(), three, {.removes = {"c-3"}}).status().ToString() == "OK");
}

TEST_CASE("nodes of a group that lists their names are removed and joined by these") {
  v1::ClusterSpec cluster = Today();
  v1::NodeGroup& group = *cluster.add_node_groups();
  group.set_name("slow[08-10],x");
  group.set_count(4);
  *group.mutable_devices() = cluster.nodes(1).devices();
  const absl::StatusOr<ChangedCluster> changed =
      ChangeCluster(cluster, {.removes = {"slow09"}, .links = {"slow08/d0-x/d0=10Gbit,50us"}});
  REQUIRE(changed.status().ToString() == "OK");
  std::vector<std::string> names;
  for (const v1::Node& node : changed->cluster.nodes()) names.push_back(node.name());
  CHECK(names == std::vector<std::string>{"a-1", "b-2", "slow08", "slow10", "x"});
  REQUIRE(changed->cluster.links_size() == 1);
  CHECK(changed->cluster.links(0).a() == "x/d0");
  CHECK(changed->cluster.links(0).b() == "slow08/d0");
  CHECK_THAT(std::string(ChangeCluster(cluster, {.removes = {"slow11"}}).status().message()),
             Contains("no node or device is \"slow11\""));
}

TEST_CASE("devices may take the place and the name of those that are removed") {
  const absl::StatusOr<ChangedCluster> changed =
      ChangeCluster(Today(), {.removes = {"b-2", "a-1"}, .adds = {"kind=slow,count=3,node=b-2"}});
  REQUIRE(changed.status().ToString() == "OK");
  REQUIRE(changed->cluster.nodes_size() == 1);
  CHECK(changed->cluster.nodes(0).name() == "b-2");
  CHECK(changed->cluster.nodes(0).site() == "south");
  CHECK(changed->cluster.nodes(0).devices_size() == 3);
}

TEST_CASE("a kind that is not there is what its data sheet says") {
  const absl::StatusOr<ChangedCluster> changed =
      ChangeCluster(Today(), {.adds = {"kind=L4-24,count=2,price=0.7"}}, {"profiles"});
  REQUIRE(changed.status().ToString() == "OK");
  const v1::Node& node = changed->cluster.nodes(2);
  REQUIRE(node.devices_size() == 2);
  CHECK(node.devices(0).kind() == "L4-24");
  CHECK(node.devices(0).price_per_hour() == 0.7);
  CHECK(node.devices(0).memory_bytes() > uint64_t{20} << 30);
  const absl::StatusOr<v1::WhatIfReport> report =
      AnswerWhatIf(Request(), Today(), {.adds = {"kind=L4-24,count=2,price=0.7"}}, {"profiles"});
  REQUIRE(report.status().ToString() == "OK");
  CHECK(FigureOf(*report, "devices_used", "L4-24").changed() == 2);
  CHECK(report->changes(0) == "added kind=L4-24,count=2,price=0.7 (at site north)");
  const absl::StatusOr<ChangedCluster> there =
      ChangeCluster(Today(), {.adds = {"kind=L4-24,count=2,site=south,rack=7"}}, {"profiles"});
  REQUIRE(there.status().ToString() == "OK");
  CHECK(there->cluster.nodes(2).site() == "south");
  CHECK(there->cluster.nodes(2).rack() == "7");
  // The job computes in f32, and the kind's coefficients are of 16 bits.
  CHECK(report->changed().prediction_error().basis() == v1::PREDICTION_BASIS_DATA_SHEETS_OF_OTHER_KINDS);
}

TEST_CASE("a kind is found whatever the case of its name, and a data sheet by the beginning of its name") {
  const auto kind_of = [](const std::string& name) {
    const absl::StatusOr<ChangedCluster> changed =
        ChangeCluster(Today(), {.adds = {absl::StrCat("kind=", name, ",count=1")}}, {"profiles"});
    return changed.ok() ? changed->cluster.nodes(2).devices(0).kind()
                        : std::string(changed.status().message());
  };
  CHECK(kind_of("SLOW") == "slow");
  CHECK(kind_of("Fast, Two Cores") == "fast, two cores");
  CHECK(kind_of("t4") == "T4-16");
  CHECK(kind_of("h100-80") == "H100-80");
  CHECK(kind_of("a100") ==
        "--add kind=a100,count=1: kind: \"a100\" may be A100-40, A100-80; name one of them");
  // A device that is there goes before a data sheet.
  v1::ClusterSpec today = Today();
  today.mutable_nodes(1)->mutable_devices(0)->set_kind("l4-24");
  const absl::StatusOr<ChangedCluster> changed = ChangeCluster(
      today, {.adds = {"kind=L4-24,count=1", "kind=T4,count=1", "kind=T4,count=1"}}, {"profiles"});
  REQUIRE(changed.status().ToString() == "OK");
  CHECK(changed->cluster.nodes(2).devices(0).kind() == "l4-24");
  CHECK(changed->kinds_by_sheet == std::set<std::string>{"T4-16"});
}

TEST_CASE("data sheets of what is added are not for other kinds that have no profile") {
  const DataSheets sheets{.directory = "profiles", .of_added_alone = true};
  const absl::StatusOr<v1::WhatIfReport> report =
      AnswerWhatIf(Request(), Today(), {.adds = {"kind=L4,count=2"}}, sheets);
  REQUIRE(report.status().ToString() == "OK");
  CHECK(FigureOf(*report, "devices_used", "L4-24").changed() == 2);
  v1::ClusterSpec unknown = Today();
  v1::Node& node = *unknown.add_nodes();
  node = unknown.nodes(1);
  node.set_name("c");
  node.mutable_devices(0)->set_kind("T4-16");
  CHECK_THAT(
      std::string(AnswerWhatIf(Request(), unknown, {.adds = {"kind=L4,count=2"}}, sheets).status().message()),
      Catch::StartsWith("no profile for shape ") && Contains("\"T4-16\""));
  const WhatIfChanges changes{.other = unknown, .adds = {"kind=L4,count=2"}};
  CHECK_THAT(std::string(AnswerWhatIf(Request(), Today(), changes, sheets).status().message()),
             Catch::StartsWith("with the changes: no profile for shape ") && Contains("\"T4-16\""));
  CHECK(AnswerWhatIf(Request(), unknown, {.adds = {"kind=L4,count=2"}}, {"profiles"}).status().ToString() ==
        "OK");
}

struct Wrong {
  WhatIfChanges changes;
  std::string error;
};

TEST_CASE("what cannot be changed so is told with what there is") {
  const Wrong wrong = GENERATE(
      Wrong{
          {.adds = {"kind=A100,count=1"}},
          "--add kind=A100,count=1: kind: no device is a \"A100\", and without --kinds DIR there is no data "
          "sheet of it; there are the kinds fast, two cores, slow; the nodes a-1, b-2; the sites north, "
          "south"},
      Wrong{{.adds = {"count=1"}},
            "--add count=1: kind: is missing; there are the kinds fast, two cores, slow; the "
            "nodes a-1, b-2; the sites north, south"},
      Wrong{{.adds = {"kind=slow"}},
            "--add kind=slow: count: is missing, of kind \"slow\"; must be a whole number of devices, 1 to "
            "65536"},
      Wrong{{.adds = {"kind=slow,cout=1"}},
            "--add kind=slow,cout=1: count: is missing, of kind \"slow,cout=1\"; must be a whole number of "
            "devices, 1 to 65536"},
      Wrong{{.other = v1::ClusterSpec()},
            "--cluster: nodes: there are none, and no node_groups; at least one of either is needed"},
      Wrong{{.adds = {"kind=slow,count=0"}},
            "--add kind=slow,count=0: count: \"0\" must be a whole number of devices, 1 "
            "to 65536"},
      Wrong{{.adds = {"kind=slow,count=1,count=2"}}, "--add kind=slow,count=1,count=2: count is there twice"},
      Wrong{{.adds = {"kind=slow,count=1,node=b-2"}},
            "--add kind=slow,count=1,node=b-2: node: \"b-2\" is there already"},
      Wrong{{.adds = {"kind=slow,count=1,price=-1"}},
            "--add kind=slow,count=1,price=-1: price: \"-1\" must be a number an hour, 0 or more"},
      Wrong{{.adds = {"4 x slow"}},
            "--add 4 x slow: must be kind=KIND,count=NUMBER, and if wanted node=NAME, price=PER_HOUR, "
            "site=SITE and "
            "rack=RACK"},
      Wrong{{.removes = {"c"}},
            "--remove c: no node or device is \"c\"; there are the kinds fast, two cores, slow; the "
            "nodes a-1, b-2; the sites north, south"},
      Wrong{{.removes = {"a-1", "b-2"}}, "--remove b-2: no device is left"},
      Wrong{
          {.removes = {"a-1", "b-2"}, .adds = {"kind=fats,count=1"}},
          "--add kind=fats,count=1: kind: no device is a \"fats\", and without --kinds DIR there is no data "
          "sheet of it; there are the kinds fast, two cores, slow; the nodes a-1, b-2; the sites north, "
          "south"},
      Wrong{{.links = {"slow"}}, "--link slow: must be A-B=RATE[,LATENCY], as in north-south=10Gbit,50us"},
      Wrong{{.links = {"a-1-c=1Gbit"}},
            "--link a-1-c=1Gbit: no device, node, kind or site is \"c\"; there are the kinds fast, two "
            "cores, slow; the "
            "nodes a-1, b-2; the sites north, south"},
      Wrong{{.links = {"north-south=fast"}},
            "--link north-south=fast: \"fast\" must be a rate above 0, as in 10Gbit, 400Mbit or 25GB"},
      Wrong{{.links = {"north-south=0Gbit"}},
            "--link north-south=0Gbit: \"0Gbit\" must be a rate above 0, as in 10Gbit, 400Mbit or 25GB"},
      Wrong{{.links = {"north-south=1Gbit,slow"}},
            "--link north-south=1Gbit,slow: \"slow\" must be a latency, as in 50us or 2ms"});
  const absl::Status status = ChangeCluster(Today(), wrong.changes).status();
  CHECK(absl::IsInvalidArgument(status));
  CHECK(status.message() == wrong.error);
}

TEST_CASE("what no data sheet is of, and what cannot be planned, is told") {
  CHECK_THAT(
      std::string(ChangeCluster(Today(), {.adds = {"kind=B9,count=1"}}, {"profiles"}).status().message()),
      Contains("kind: no device is a \"B9\", and profiles has no file of it; there are A100-40, "));
  CHECK(AnswerWhatIf(Request(), v1::ClusterSpec(), {.other = Today()}).status().message() ==
        "today's cluster: nodes: there are none, and no node_groups; at least one of either is needed");
  v1::PlanJobRequest request = Request();
  request.mutable_spec()->mutable_scheduling()->set_least_devices(3);
  CHECK(AnswerWhatIf(request, Today(), {.removes = {"b-2"}}).status().message() ==
        "with the changes: scheduling.least_devices: 3 is more than the devices of the cluster, 2");
  request = Request();
  request.mutable_spec()->mutable_constraints()->add_devices("b-2/d0");
  const absl::Status status = AnswerWhatIf(request, Today(), {.removes = {"b-2"}}).status();
  CHECK_THAT(std::string(status.message()),
             Catch::StartsWith("with the changes: constraints.devices: \"b-2/d0\""));
}

}  // namespace
}  // namespace medley
