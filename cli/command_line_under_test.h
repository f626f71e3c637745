#pragma once
#include <string>
#include <vector>

#include "cli/fake_coordinator.h"

namespace medley {

// What a command printed, and how it ended.
struct Outcome {
  int code = -1;
  std::string out, err;
};

// The path of `name` in a folder of this process's tests.
std::string TemporaryFile(const std::string& name);

// With the words behind "medley"; what it prints goes to `out_file`.
Outcome Run(std::vector<std::string> words, const std::string& out_file = TemporaryFile("out"));

// Of this coordinator.
Outcome Ask(const FakeCoordinator& coordinator, std::vector<std::string> words);

// Of a small job.
std::string SpecFile();

}  // namespace medley
