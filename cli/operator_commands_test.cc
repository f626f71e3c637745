// Commands about nodes and the cluster.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "cli/command_line_under_test.h"

namespace medley {
namespace {

TEST_CASE("where no node is live, none is fit") {
  FakeCoordinator coordinator;
  const Outcome outcome = Ask(coordinator, {"check"});
  CHECK(outcome.code == 1);
  CHECK(outcome.err == "medley: no node is live: none was checked\n");
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

TEST_CASE("a backup is its owner's alone to read, as what the coordinator has is an admin's to ask for") {
  FakeCoordinator coordinator;
  const std::string file = TemporaryFile("backup.db");
  std::filesystem::remove(file);
  CHECK(Ask(coordinator, {"backup", file}).code == 0);
  CHECK(std::filesystem::file_size(file) == std::string("a store").size());
  CHECK(std::filesystem::status(file).permissions() ==
        (std::filesystem::perms::owner_read | std::filesystem::perms::owner_write));
}

TEST_CASE("a backup is not written through what lies where it is begun") {
  FakeCoordinator coordinator;
  const std::string file = TemporaryFile("through.db"), partial = file + ".partial",
                    others = TemporaryFile("others");
  for (const std::string& path : {file, partial, others}) std::filesystem::remove_all(path);
  std::ofstream(others) << "another's";
  SECTION("a link or another's file is replaced") {
    SECTION("a link") { std::filesystem::create_symlink(others, partial); }
    SECTION("a file that others have open") { std::filesystem::create_hard_link(others, partial); }
    CHECK(Ask(coordinator, {"backup", file}).code == 0);
    CHECK(std::filesystem::is_regular_file(std::filesystem::symlink_status(file)));
    CHECK(std::filesystem::status(file).permissions() ==
          (std::filesystem::perms::owner_read | std::filesystem::perms::owner_write));
  }
  SECTION("what cannot be replaced is told") {
    std::filesystem::create_directories(partial + "/folder");
    const Outcome outcome = Ask(coordinator, {"backup", file});
    CHECK(outcome.code == 1);
    CHECK_THAT(outcome.err, Catch::Contains("cannot make " + partial));
    CHECK_FALSE(std::filesystem::exists(file));
  }
  CHECK(std::filesystem::file_size(others) == std::string("another's").size());
}

TEST_CASE("a bundle has all of each of the newest jobs, which their list has not") {
  FakeCoordinator coordinator;
  coordinator.job = JobIn(v1::JOB_STATE_DONE);
  const Outcome outcome = Ask(coordinator, {"debug", "bundle", "-o", TemporaryFile("bundle.tar.gz")});
  CAPTURE(outcome.err);
  CHECK(outcome.code == 0);
  CHECK(coordinator.Seen()["get"] == "job_id: \"bible-1\"");
}

}  // namespace
}  // namespace medley
