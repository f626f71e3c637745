#include "cli/command_line_under_test.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "cli/command_line.h"

namespace medley {
namespace {

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

const char kSpec[] =
    "name: bible\n"
    "model: {gpt2: {layers: 1, hidden: 8, heads: 1}}\n"
    "data: {train: /x.txt}\n"
    "batch: {sequences: 8, sequence_length: 8}\n"
    "steps: 10\n";

}  // namespace

std::string TemporaryFile(const std::string& name) {
  static const std::string folder = [] {
    const char* given = std::getenv("TEST_TMPDIR");
    std::string path = absl::StrCat(given == nullptr ? "/tmp" : given, "/command-line-XXXXXX");
    REQUIRE(mkdtemp(path.data()) != nullptr);
    return path;
  }();
  return absl::StrCat(folder, "/", name);
}

Outcome Run(std::vector<std::string> words, const std::string& out_file) {
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

std::string SpecFile() {
  const std::string file = TemporaryFile("job.yaml");
  std::ofstream(file) << kSpec;
  return file;
}

}  // namespace medley
