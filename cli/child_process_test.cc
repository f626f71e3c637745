#include "cli/child_process.h"

#include <stdlib.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "runtime/base/clock.h"

namespace medley {
namespace {

class Folder {
 public:
  Folder() { REQUIRE(mkdtemp(path_.data()) != nullptr); }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string File(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_ = "/tmp/medley-child-XXXXXX";
};

ChildProcess StartShell(const Folder& folder, const std::string& script) {
  absl::StatusOr<ChildProcess> child = ChildProcess::Start(
      {.name = "shell", .program = "/bin/sh", .arguments = {"-c", script}, .log_file = folder.File("log")});
  REQUIRE(child.ok());
  return *std::move(child);
}

TEST_CASE("a child's exit code and last words are known") {
  const Folder folder;
  ChildProcess child = StartShell(folder, "echo one; echo two; echo three >&2; exit 3");
  child.Wait(Now() + absl::Seconds(30));
  CHECK(child.Ended() == "exited with 3");
  CHECK(child.LastWords(2) == "two\nthree");
}

TEST_CASE("a child is asked to end") {
  const Folder folder;
  ChildProcess child = StartShell(folder, "exec sleep 1000");
  CHECK_FALSE(child.Ended());
  child.Terminate();
  child.Wait(Now() + absl::Seconds(30));
  CHECK(child.Ended() == "was killed by signal 15 (Terminated)");
}

TEST_CASE("a child that does not end in time is killed") {
  const Folder folder;
  ChildProcess child = StartShell(folder, "trap '' TERM; while true; do sleep 1000; done");
  child.Wait(absl::InfinitePast());
  CHECK(child.Ended() == "was killed by signal 9 (Killed)");
}

TEST_CASE("of a child that another killed it is said where the reason may stand") {
  const Folder folder;
  ChildProcess child = StartShell(folder, "kill -9 $$");
  child.Wait(Now() + absl::Seconds(30));
  CHECK(child.Ended() == "was killed by signal 9 (Killed), perhaps out of memory: dmesg says");
}

TEST_CASE("what cannot be started says so") {
  const Folder folder;
  absl::StatusOr<ChildProcess> child = ChildProcess::Start(
      {.name = "x", .program = "/nowhere/x", .arguments = {}, .log_file = folder.File("log")});
  REQUIRE(child.ok());
  child->Wait(Now() + absl::Seconds(30));
  CHECK(child->Ended() == "exited with 127");
  CHECK(absl::IsUnavailable(
      ChildProcess::Start({.name = "x", .program = "/bin/sh", .arguments = {}, .log_file = "/nowhere/log"})
          .status()));
  CHECK(absl::IsNotFound(SiblingProgram("no-such-program").status()));
}

}  // namespace
}  // namespace medley
