// A main() that makes a fuzz target an ordinary test, without clang: every seed must be accepted, then
// mutations of seeds and of what was accepted, the same ones in every run, until there were enough or the
// time is up.
//
//   NAME [--runs=20000] [--seconds=3] [--seed=1]
//   NAME --write_corpus=DIRECTORY     writes the seeds as files for libFuzzer
//   NAME FILE...                      runs these inputs

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/mutate.h"

namespace medley {
namespace {

// For the signal handler: what is being run.
const std::string* current = nullptr;
uint64_t current_run = 0;

void ReportAndDie(int signal_number) {
  char line[64];
  const int length = std::snprintf(line, sizeof(line), "\nin run %llu, input in hexadecimal:\n",
                                   static_cast<unsigned long long>(current_run));
  [[maybe_unused]] ssize_t written = write(STDERR_FILENO, line, static_cast<size_t>(length));
  for (size_t i = 0; current != nullptr && i < current->size(); ++i) {
    static constexpr char kDigits[] = "0123456789abcdef";
    const auto byte = static_cast<unsigned char>((*current)[i]);
    const char digits[2] = {kDigits[byte >> 4], kDigits[byte & 15]};
    written = write(STDERR_FILENO, digits, sizeof(digits));
  }
  written = write(STDERR_FILENO, "\n", 1);
  signal(signal_number, SIG_DFL);
  raise(signal_number);
}

// Whether the target accepted `input`.
bool Run(const std::string& input) {
  const uint64_t before = AcceptedCount();
  current = &input;
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(input.data()), input.size());
  current = nullptr;
  ++current_run;
  return AcceptedCount() > before;
}

int RunSeedsAndMutations(uint64_t runs, double seconds, uint64_t seed) {
  std::vector<std::string> corpus = FuzzSeeds();
  for (size_t i = 0; i < corpus.size(); ++i) {
    if (Run(corpus[i])) continue;
    std::fprintf(stderr, "seed %zu of %zu is refused\n", i, corpus.size());
    return 1;
  }
  const size_t seeds = corpus.size();
  if (seeds == 0) return 1;
  Run("");
  std::mt19937_64 random(seed);
  const auto begin = std::chrono::steady_clock::now();
  uint64_t run = 0, accepted = 0;
  for (; run < runs; ++run) {
    // However slow the machine is, some are run.
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
    if (run >= 200 && elapsed.count() > seconds) break;
    std::string input = Mutate(corpus[random() % corpus.size()], corpus, random);
    if (!Run(input)) continue;
    ++accepted;
    if (corpus.size() < seeds + 200) corpus.push_back(std::move(input));
  }
  std::printf("%zu seeds, %llu mutations, %llu accepted\n", seeds, static_cast<unsigned long long>(run),
              static_cast<unsigned long long>(accepted));
  return 0;
}

int WriteCorpus(const std::string& directory) {
  std::filesystem::create_directories(directory);
  const std::vector<std::string> seeds = FuzzSeeds();
  for (size_t i = 0; i < seeds.size(); ++i) {
    std::ofstream(directory + "/seed" + std::to_string(i), std::ios::binary) << seeds[i];
  }
  return 0;
}

}  // namespace

int FuzzMain(int count, char** arguments) {
  for (const int signal_number : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL})
    signal(signal_number, ReportAndDie);
  uint64_t runs = 20000, seed = 1;
  double seconds = 3;
  bool files = false;
  for (int i = 1; i < count; ++i) {
    const std::string argument = arguments[i];
    const auto value = [&](const char* name) {
      return argument.rfind(name, 0) == 0 ? argument.c_str() + std::strlen(name) : nullptr;
    };
    if (const char* text = value("--write_corpus=")) return WriteCorpus(text);
    if (const char* text = value("--runs=")) {
      runs = std::strtoull(text, nullptr, 10);
    } else if (const char* text = value("--seconds=")) {
      seconds = std::strtod(text, nullptr);
    } else if (const char* text = value("--seed=")) {
      seed = std::strtoull(text, nullptr, 10);
    } else {
      files = true;
      std::ifstream file(argument, std::ios::binary);
      const std::string input((std::istreambuf_iterator<char>(file)), {});
      std::printf("%s: %zu bytes, %s\n", argument.c_str(), input.size(), Run(input) ? "accepted" : "refused");
    }
  }
  return files ? 0 : RunSeedsAndMutations(runs, seconds, seed);
}

}  // namespace medley

int main(int count, char** arguments) { return medley::FuzzMain(count, arguments); }
