#include "cli/generate_command.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/child_process.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

constexpr int64_t kMostTokens = 10'000'000;

absl::Status BecomeWorker(const std::map<std::string, std::string>& options, Output output) {
  ASSIGN_OR_RETURN(const std::string program, SiblingProgram("medley-worker"));
  std::vector<std::string> words = {program, "generate"};
  if (output == Output::kJson) words.push_back("--output=json");
  for (const auto& [option, value] : options) words.push_back(absl::StrCat(option, "=", value));
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  execv(program.c_str(), pointers.data());
  return absl::UnavailableError(absl::StrCat("cannot start ", program, ": ", strerror(errno)));
}

// For CLI11: what is wrong with a value, if it is no whole number of this range.
std::function<std::string(const std::string&)> Whole(int64_t least, int64_t most) {
  return [=](const std::string& text) {
    int64_t value;
    if (absl::SimpleAtoi(text, &value) && value >= least && value <= most) return std::string();
    return absl::StrCat(text, " is not a whole number in [", least, ", ", most, "]");
  };
}

std::string Temperature(const std::string& text) {
  double value;
  if (absl::SimpleAtod(text, &value) && value >= 0 && value <= 1000) return "";
  return absl::StrCat(text, " is not a number in [0, 1000]");
}

// (An empty value would make the worker take the next option for it.)
std::string NotEmpty(const std::string& text) { return text.empty() ? "is empty" : ""; }

}  // namespace

void AddGenerateCommand(CLI::App& app, const Output& output, std::function<absl::Status()>& action) {
  const auto options = std::make_shared<std::map<std::string, std::string>>();
  CLI::App* generate = app.add_subcommand("generate", "continue a prompt with an exported model");
  const auto option = [&](const char* name, const char* what,
                          std::function<std::string(const std::string&)> check) {
    return generate
        ->add_option_function<std::string>(
            name, [options, name](const std::string& value) { (*options)[name] = value; }, what)
        ->check(CLI::Validator(std::move(check), ""));
  };
  option("--model", "folder with config.json and model.safetensors", NotEmpty)->required();
  CLI::Option* prompt =
      option("--prompt", "text; its bytes are the tokens, of a model whose vocabulary they are", NotEmpty);
  generate
      ->add_option_function<std::vector<std::string>>(
          "--prompt-tokens",
          [options](const std::vector<std::string>& ids) {
            (*options)["--prompt-tokens"] = absl::StrJoin(ids, ",");
          },
          "ids, as in 1,2,3; for models that are not byte-level")
      ->check(CLI::Validator(NotEmpty, ""))
      ->excludes(prompt);
  option("--tokens", "how many to generate; default: 200", Whole(1, kMostTokens));
  option("--temperature", "0: always the likeliest; default: 0.8", Temperature);
  option("--top-k", "sample from the likeliest so many; 0: from all; default: 40", Whole(0, kMostTokens));
  option("--seed", "of the sampling; default: 1", Whole(0, INT64_MAX));
  generate->callback([options, prompt, &output, &action] {
    action = [options, prompt, &output]() -> absl::Status {
      if (prompt->count() == 0 && options->count("--prompt-tokens") == 0) {
        return absl::InvalidArgumentError("generate: give --prompt TEXT or --prompt-tokens IDS");
      }
      return BecomeWorker(*options, output);
    };
  });
}

}  // namespace medley
