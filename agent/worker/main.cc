// medley-worker: one task on one device, started by medley-agent; and `generate` and `align`, which need the
// same kernels.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "agent/discovery/discovery.h"
#include "agent/worker/align_commands.h"
#include "agent/worker/generate.h"
#include "agent/worker/serve.h"
#include "agent/worker/task.h"
#include "kernels/backends.h"
#include "runtime/base/open_files.h"
#include "runtime/base/status_macros.h"
#include "runtime/log/log.h"
#include "runtime/wire/device_codec.h"
#include "runtime/wire/json_message.h"

namespace {

constexpr int kChannelDescriptor = 3;
constexpr int kFailed = 1, kBadInput = 2;

struct GenerateFlags {
  std::string model, prompt, prompt_tokens, output = "text";
  medley::GenerateOptions options;
};

absl::Status RunGenerate(GenerateFlags& flags) {
  medley::GenerateOptions& options = flags.options;
  options.model_directory = flags.model;
  const bool bytes = flags.prompt_tokens.empty();
  if (bytes) {
    options.prompt_kind = medley::PromptKind::kBytes;
    for (const unsigned char c : flags.prompt) options.prompt.push_back(c);
  } else {
    ASSIGN_OR_RETURN(options.prompt, medley::ParseTokenIds(flags.prompt_tokens));
  }
  ASSIGN_OR_RETURN(const std::vector<medley::v1::Device> devices,
                   medley::CompleteDevices(medley::DiscoverDevices(), medley::AllBackends()));
  ASSIGN_OR_RETURN(medley::Device device, medley::OpenDevice(medley::DecodeDevice(devices.front())));
  bool begun = false;
  const auto begin = [&] {
    begun = true;
    if (bytes) std::fwrite(flags.prompt.data(), 1, flags.prompt.size(), stdout);
  };
  const absl::Status status = medley::Generate(device, options, begin, [&](int32_t token) {
    if (bytes) {
      std::fputc(token, stdout);
    } else {
      std::printf("%d ", token);
    }
    std::fflush(stdout);
  });
  if (begun) std::printf("\n");
  return status;
}

// As medley says its own.
void SayError(const char* command, const absl::Status& status, bool as_json) {
  const std::string message(status.message());
  if (as_json) {
    const std::string code = absl::AsciiStrToLower(absl::StatusCodeToString(status.code()));
    std::fprintf(stderr, "{\"error\": %s, \"code\": %s}\n", medley::JsonString(message).c_str(),
                 medley::JsonString(code).c_str());
  } else {
    std::fprintf(stderr, "medley %s: %s\n", command, message.c_str());
  }
}

// What CLI11 has to say of the command line, and the exit code: 2 if it is wrong.
int ReportParse(const CLI::App& app, const CLI::ParseError& error) {
  return app.exit(error) == 0 ? 0 : kBadInput;
}

}  // namespace

int main(int argc, char** argv) {
  medley::RaiseOpenFilesLimit();
  std::signal(SIGXFSZ, SIG_IGN);  // a file size limit is an error of the write, not the end of the process
  medley::StartLog(medley::LogStyle::kWorker);
  CLI::App app("Runs one task on one device. Started by medley-agent.", "medley-worker");
  app.require_subcommand(1);
  CLI::App* run = app.add_subcommand("run", "take a task from the agent on descriptor 3");
  CLI::App* generate = app.add_subcommand("generate", "continue a prompt with an exported model");
  GenerateFlags flags;
  generate->add_option("--model", flags.model, "directory with config.json and model.safetensors")
      ->required();
  auto* prompt = generate->add_option("--prompt", flags.prompt, "text; its bytes are the tokens");
  auto* ids = generate->add_option("--prompt-tokens", flags.prompt_tokens,
                                   "token ids, as in 1,2,3; for models that are not byte-level");
  prompt->excludes(ids);
  generate->add_option("--tokens", flags.options.tokens, "how many to generate")->capture_default_str();
  generate->add_option("--temperature", flags.options.temperature, "0: always the likeliest")
      ->capture_default_str();
  generate->add_option("--top-k", flags.options.top_k, "sample from so many; 0: from all")
      ->capture_default_str();
  generate->add_option("--seed", flags.options.seed, "of the sampling")->capture_default_str();
  generate->add_option("--output", flags.output, "of errors: text or json")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
  std::function<absl::Status()> align;
  medley::AddAlignCommands(app, align);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return ReportParse(app, error);
  }
  if (run->parsed()) {
    const int status = medley::ServeOneTask(kChannelDescriptor);
    medley::EndLog();
    std::fflush(nullptr);
    _exit(status);  // threads of libraries may still be at it; nothing is left to save
  }
  const absl::Status status = align ? align() : RunGenerate(flags);
  if (!status.ok()) SayError(align ? "align" : "generate", status, flags.output == "json");
  return status.ok() ? 0 : absl::IsInvalidArgument(status) ? kBadInput : kFailed;
}
