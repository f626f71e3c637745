#include "agent/check/node_check.h"

#include <catch2/catch.hpp>
#include <filesystem>

#include "runtime/base/files/temporary_directory.h"
#include "runtime/base/version.h"

namespace medley {
namespace {

// "" where there is no such finding at this level.
std::string TextOf(const v1::NodeCheck& check, v1::FindingLevel level, const std::string& subject) {
  for (const v1::Finding& finding : check.findings()) {
    if (finding.level() == level && finding.subject() == subject) return finding.text();
  }
  return "";
}

v1::Device CpuDevice(const std::string& name, std::vector<uint32_t> cores, uint64_t bytes = 1 << 20) {
  v1::Device device;
  device.set_name(name);
  device.set_backend("cpu");
  device.set_kind("cpu:avx2");
  device.set_memory_bytes(bytes);
  device.mutable_cores()->Add(cores.begin(), cores.end());
  return device;
}

TEST_CASE("a node that is as it should be says so, with figures") {
  const TemporaryDirectory directory;
  const v1::NodeCheck check =
      CheckNode({.devices = {CpuDevice("cpu0", {0})}, .directories = {directory.path()}});
  CHECK(check.medley_version() == kMedleyVersion);
  CHECK(check.clock_seconds() > 1.7e9);
  CHECK(TextOf(check, v1::FINDING_LEVEL_GOOD, "device cpu0") == "cpu:avx2, 1.0 MiB");
  const std::string subject = "directory " + directory.path();
  // How fast it is depends on the machine.
  CHECK((TextOf(check, v1::FINDING_LEVEL_GOOD, subject) + TextOf(check, v1::FINDING_LEVEL_WARNING, subject))
            .find("MB/s to the disk") != std::string::npos);
  CHECK(std::filesystem::is_empty(directory.path()));
}

TEST_CASE("what will not do is named, with what to do about it") {
  const TemporaryDirectory directory;
  const v1::NodeCheck check =
      CheckNode({.devices = {CpuDevice("one", {0}), CpuDevice("two", {0}, uint64_t{1} << 50),
                             CpuDevice("three", {60000})},
                 .directories = {directory.File("missing"), "/proc"},
                 .allowed_directories = {directory.path()}});
  CHECK(TextOf(check, v1::FINDING_LEVEL_WARNING, "device two") ==
        "computes on core 0, as one does: they slow each other down");
  CHECK(TextOf(check, v1::FINDING_LEVEL_ERROR, "device three") == "core 60000 is not there");
  CHECK(TextOf(check, v1::FINDING_LEVEL_WARNING, "memory").find("less memory_bytes") != std::string::npos);
  CHECK(TextOf(check, v1::FINDING_LEVEL_ERROR, "directory " + directory.File("missing")) ==
        "is not there; is it on a file system that every node sees?");
  CHECK(TextOf(check, v1::FINDING_LEVEL_ERROR, "directory /proc").find("allowed_directories") !=
        std::string::npos);
  CHECK(TextOf(CheckNode({}), v1::FINDING_LEVEL_ERROR, "devices") == "there are none; no job will run here");
  // Nobody can make files there, not even root.
  CHECK(TextOf(CheckNode({.directories = {"/proc"}}), v1::FINDING_LEVEL_ERROR, "directory /proc")
            .find("cannot be written to") == 0);
}

TEST_CASE("a directory that may not be looked at is a finding among others") {
  const TemporaryDirectory directory;
  const std::string itself = directory.File("itself");
  std::filesystem::create_symlink(itself, itself);
  const v1::NodeCheck check = CheckNode({.directories = {itself + "/checkpoints", "/nowhere"}});
  CHECK(TextOf(check, v1::FINDING_LEVEL_ERROR, "directory " + itself + "/checkpoints") ==
        "Too many levels of symbolic links");
  CHECK(TextOf(check, v1::FINDING_LEVEL_ERROR, "directory /nowhere").find("is not there") == 0);
}

}  // namespace
}  // namespace medley
