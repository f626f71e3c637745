#include "runtime/wire/job_paths.h"

#include <catch2/catch.hpp>
#include <filesystem>

#include "runtime/base/files/temporary_directory.h"

namespace medley {
namespace {

TEST_CASE("what a job names lies in what is allowed, or it is refused by its field") {
  const TemporaryDirectory directory;
  const std::string data = directory.File("data"), other = directory.File("data2");
  std::filesystem::create_directories(data + "/inside");
  std::filesystem::create_directories(other);
  std::filesystem::create_directory_symlink(other, data + "/link");
  v1::JobSpec spec;
  const auto why = [&](const std::string& path) {
    spec.mutable_data()->set_train(path);
    return std::string(CheckJobPaths(spec, {"/nowhere", data}).message());
  };
  for (const char* path : {"/train.txt", "/inside/../train.txt", "/new/deep/train.txt", ""})
    CHECK(why(data + path).empty());
  CHECK(CheckJobPaths(spec, {data + "/"}).ok());
  for (const std::string& path : {other + "/train.txt", data + "/../data2/train.txt",
                                  data + "/link/train.txt", std::string("/etc/passwd"), data + "x"}) {
    CHECK(why(path) ==
          "data.train: " + path +
              " lies in none of the directories that are allowed (allowed_directories): /nowhere, " + data);
  }
  CHECK(CheckJobPaths(spec, {}).ok());
  // What cannot be resolved allows nothing.
  std::filesystem::create_symlink(directory.File("round"), directory.File("round"));
  spec.mutable_data()->set_train("/etc/passwd");
  for (const std::string& none : {std::string(), directory.File("round")})
    CHECK(!CheckJobPaths(spec, {none}).ok());
}

TEST_CASE("every path that a job has is looked at") {
  const std::vector<std::string> allowed = {"/data"};
  v1::JobSpec spec;
  CHECK(CheckJobPaths(spec, allowed).ok());
  for (const auto& set : std::initializer_list<void (*)(v1::JobSpec&)>{
           [](v1::JobSpec& one) { one.mutable_data()->set_train("/etc/a"); },
           [](v1::JobSpec& one) { one.mutable_data()->set_validation("/etc/a"); },
           [](v1::JobSpec& one) { one.mutable_model()->set_hugging_face("/etc/a"); },
           [](v1::JobSpec& one) { one.mutable_checkpoint()->set_directory("/etc/a"); },
           [](v1::JobSpec& one) { one.mutable_checkpoint()->set_resume_from("/etc/a"); },
           [](v1::JobSpec& one) { one.set_tensorboard("/etc/a"); }}) {
    v1::JobSpec bad;
    set(bad);
    CHECK(absl::IsInvalidArgument(CheckJobPaths(bad, allowed)));
  }
  CHECK(absl::IsInvalidArgument(CheckJobPaths(spec, allowed, {{"resume_from", "/etc/a"}})));
}

}  // namespace
}  // namespace medley
