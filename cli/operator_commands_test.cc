// Commands about nodes and the cluster.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cli/command_line_under_test.h"
#include "cli/interrupts.h"

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

TEST_CASE("a node that is drained says of each job how it leaves, or that it stays") {
  FakeCoordinator coordinator;
  for (const char* job : {"saves-1", "starts-2", "saves-3"}) coordinator.drained.add_leaving(job);
  coordinator.drained.add_leaving_at_once("starts-2");
  coordinator.drained.add_staying("stays-4");
  const Outcome outcome = Ask(coordinator, {"drain", "a", "--now"});
  CHECK(coordinator.Seen()["drain"] == "node: \"a\" now: true");
  CHECK_THAT(outcome.out, Catch::Contains("after their step and a checkpoint: saves-1, saves-3\n") &&
                              Catch::Contains("at once, without a checkpoint of what they did since their "
                                              "last: starts-2\n") &&
                              Catch::Contains(": stays-4\n"));
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

TEST_CASE("a backup leaves alone what others have beside it or in its place") {
  FakeCoordinator coordinator;
  const std::string folder = TemporaryFile("backups"), file = folder + "/backup.db";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  const auto write = [](const std::string& path) { std::ofstream(path) << "another's"; };
  const auto is_anothers = [](const std::string& path) {
    std::ifstream stream(path);
    return std::string(std::istreambuf_iterator<char>(stream), {}) == "another's";
  };
  const auto count = [&] {
    return std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator());
  };
  const std::string is_there =
      "medley: " + file + " is there already; a backup is not written over another file\n";
  SECTION("another backup that is on its way to the same file") {
    write(file + ".partial");
    CHECK(Ask(coordinator, {"backup", file}).code == 0);
    CHECK(is_anothers(file + ".partial"));
    CHECK(count() == 2);
  }
  SECTION("another backup that comes first") {
    coordinator.during_backup = [&] { write(file); };
    const Outcome second = Ask(coordinator, {"backup", file});
    CHECK(second.code == 2);
    CHECK(second.err == is_there);
    CHECK(is_anothers(file));
    CHECK(count() == 1);
  }
  SECTION("a link, wherever it leads") {
    std::filesystem::create_symlink(folder + "/nowhere", file);
    CHECK(Ask(coordinator, {"backup", file}).err == is_there);
    CHECK(count() == 1);
  }
}

TEST_CASE("a backup that Ctrl-C ends leaves nothing behind") {
  BlockInterrupts();
  FakeCoordinator coordinator;
  coordinator.stands_still = "backup";
  const std::string folder = TemporaryFile("interrupted");
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  const Outcome outcome = Ask(coordinator, {"backup", folder + "/backup.db"});
  CHECK(outcome.code == 130);
  CHECK(outcome.err == "medley: interrupted; there is no backup\n");
  CHECK(std::filesystem::is_empty(folder));
}

TEST_CASE("a bundle has all of each of the newest jobs, which their list has not") {
  FakeCoordinator coordinator;
  coordinator.job = JobIn(v1::JOB_STATE_DONE);
  const Outcome outcome = Ask(coordinator, {"debug", "bundle", "-o", TemporaryFile("bundle.tar.gz")});
  CAPTURE(outcome.err);
  CHECK(outcome.code == 0);
  CHECK(coordinator.Seen()["get"] == "job_id: \"bible-1\"");
}

TEST_CASE("a bundle may have a time in its name, and is not for standard output") {
  FakeCoordinator coordinator;
  coordinator.job = JobIn(v1::JOB_STATE_DONE);
  const std::string folder = TemporaryFile("bundles");
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder);
  const Outcome timed = Ask(coordinator, {"debug", "bundle", "-o", "bundle-12:30:00.tar.gz"});
  std::filesystem::current_path(before);
  CAPTURE(timed.err);
  CHECK(timed.code == 0);
  CHECK(std::filesystem::file_size(folder + "/bundle-12:30:00.tar.gz") > 0);
  const Outcome streamed = Ask(coordinator, {"debug", "bundle", "-o", "-"});
  CHECK(streamed.code == 2);
  CHECK(streamed.err == "medley: --to -: a bundle is written to a file, not to standard output\n");
}

// A link to itself: what may not be looked at, for root, too.
std::string Unseen() {
  std::string path = TemporaryFile("unseen");
  std::filesystem::remove(path);
  std::filesystem::create_symlink(path, path);
  return path;
}

TEST_CASE("a path that may not be looked at is an error, or nothing where it was not named") {
  FakeCoordinator coordinator;
  coordinator.job = JobIn(v1::JOB_STATE_DONE);
  const std::string unseen = Unseen();
  const std::vector<std::vector<std::string>> commands = {
      {"backup", unseen + "/backup.db"},
      {"debug", "bundle", "-o", unseen + "/bundle.tar.gz"},
      {"trace", "bible-1", "-o", unseen + "/trace.json"},
      {"certs", "init", unseen + "/authority"}};
  for (const std::vector<std::string>& command : commands) {
    CAPTURE(command[0]);
    const Outcome outcome = Ask(coordinator, command);
    CHECK(outcome.code == 2);
    CHECK_THAT(outcome.err, Catch::Contains(unseen) && Catch::Contains("Too many levels of symbolic links"));
  }
  setenv("XDG_CONFIG_HOME", unseen.c_str(), 1);
  const Outcome status = Ask(coordinator, {"status", "bible-1"});
  unsetenv("XDG_CONFIG_HOME");
  CAPTURE(status.err);
  CHECK(status.code == 0);
}

}  // namespace
}  // namespace medley
