// medley: what users ask of a coordinator, and `up`, a cluster on one machine.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/cli/align_command.h"
#include "coordinator/cli/child_process.h"
#include "coordinator/cli/commands.h"
#include "coordinator/cli/input_file.h"
#include "coordinator/cli/links_command.h"
#include "coordinator/cli/local_cluster.h"
#include "coordinator/cli/watch.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

constexpr int kDone = 0, kFailed = 1, kBadInput = 2;

// What the chosen command will do.
using Action = std::function<absl::Status()>;

struct Arguments {
  Connection connection;
  double timeout_seconds = 10;
  std::string output = "text", job, node, file, directory;
  SubmitCommand submit;
  PlanCommand plan;
  bool watch = false, explain = false, kernels = false;
  std::map<std::string, std::string> generate;
};

absl::Status RunUp(const Arguments& arguments) {
  LocalClusterOptions options;
  options.directory = arguments.directory;
  if (!arguments.file.empty()) RETURN_IF_ERROR(ReadInputFile(arguments.file, &options.config));
  BlockInterrupts();
  return RunLocalCluster(options);
}

// Becomes medley-worker, which has the kernels; returns only if that cannot be.
absl::Status RunGenerate(const Arguments& arguments) {
  ASSIGN_OR_RETURN(const std::string program, SiblingProgram("medley-worker"));
  std::vector<std::string> words = {program, "generate"};
  for (const auto& [option, value] : arguments.generate) words.push_back(absl::StrCat(option, "=", value));
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  execv(program.c_str(), pointers.data());
  return absl::UnavailableError(absl::StrCat("cannot start ", program, ": ", strerror(errno)));
}

void AddJobCommands(CLI::App& app, Arguments& arguments, Action& action) {
  const auto of_job = [&](const char* name, const char* what,
                          absl::Status (*run)(const Connection&, const std::string&)) {
    CLI::App* command = app.add_subcommand(name, what);
    command->callback([&arguments, &action, run] {
      action = [&arguments, run] { return run(arguments.connection, arguments.job); };
    });
    return command->add_option("JOB", arguments.job, "id of the job");
  };
  of_job("status", "all jobs, or one of them", RunStatus);
  of_job("watch", "progress of a job until it has ended", RunWatch)->required();
  of_job("cancel", "end a job", RunCancel)->required();
  of_job("logs", "what happened to a job", RunLogs)->required();
  of_job("steps", "metrics of a job's steps", RunSteps)->required();

  CLI::App* trace = app.add_subcommand("trace", "predicted and measured times of a step, for Perfetto");
  trace->add_option("JOB", arguments.job, "id of the job")->required();
  trace->add_option("-o,--to", arguments.file, "file to write; - for standard output")->required();
  trace->callback(
      [&] { action = [&] { return RunTrace(arguments.connection, arguments.job, arguments.file); }; });

  CLI::App* exported = app.add_subcommand("export", "the newest checkpoint as a model of Hugging Face");
  exported->add_option("JOB", arguments.job, "id of the job")->required();
  exported->add_option("--to", arguments.directory, "folder to write")->required();
  exported->callback(
      [&] { action = [&] { return RunExport(arguments.connection, arguments.job, arguments.directory); }; });
}

void AddSpecCommands(CLI::App& app, Arguments& arguments, Action& action) {
  CLI::App* submit = app.add_subcommand("submit", "queue a job; prints its id");
  submit->add_option("FILE", arguments.submit.job_file, "job spec (YAML)")->required();
  submit->add_flag("--watch", arguments.watch, "show its progress until it has ended");
  submit->add_option("--request-id", arguments.submit.request_id,
                     "a repeat with the same one is the same job");
  submit->callback([&] {
    arguments.submit.then = arguments.watch ? AfterSubmit::kWatch : AfterSubmit::kReturn;
    action = [&] { return RunSubmit(arguments.connection, arguments.submit); };
  });
  CLI::App* plan = app.add_subcommand("plan", "how a job would run; starts nothing");
  plan->add_option("FILE", arguments.plan.job_file, "job spec (YAML)")->required();
  plan->add_flag("--explain", arguments.explain, "also why it would not run otherwise");
  plan->add_option("--cluster", arguments.plan.cluster_file,
                   "cluster (YAML) to plan for, without a coordinator");
  plan->callback([&] {
    arguments.plan.detail = arguments.explain ? PlanDetail::kExplanation : PlanDetail::kSummary;
    action = [&] { return RunPlan(arguments.connection, arguments.plan); };
  });
}

void AddOtherCommands(CLI::App& app, Arguments& arguments, Action& action) {
  CLI::App* nodes =
      app.add_subcommand("nodes", "nodes and their devices; --output cluster: as a file for plan --cluster");
  CLI::Option* kernels =
      nodes->add_flag("--kernels", arguments.kernels, "which kernels run the ops of their devices, and why");
  nodes->add_option("NODE", arguments.node, "of this node alone")->needs(kernels);
  nodes->callback([&] {
    action = [&] {
      return arguments.kernels ? RunKernels(arguments.connection, arguments.node) : RunNodes(arguments.connection);
    };
  });

  CLI::App* up = app.add_subcommand("up", "a coordinator and agents on this machine, until Ctrl-C");
  up->add_option("--config", arguments.file,
                 "cluster (YAML of LocalClusterConfig); default: one agent, all devices");
  up->add_option("--directory", arguments.directory, "for state and logs; default: medley-local");
  up->callback([&] {
    if (arguments.directory.empty()) arguments.directory = "medley-local";
    action = [&] { return RunUp(arguments); };
  });

  CLI::App* generate = app.add_subcommand("generate", "continue a prompt with an exported model");
  const auto option = [&](const char* name, const char* what) {
    return generate->add_option_function<std::string>(
        name, [&arguments, name](const std::string& value) { arguments.generate[name] = value; }, what);
  };
  option("--model", "folder with config.json and model.safetensors")->required();
  CLI::Option* prompt = option("--prompt", "text; its bytes are the tokens");
  option("--prompt-tokens", "ids, for models that are not byte-level")->excludes(prompt);
  option("--tokens", "how many to generate")->check(CLI::NonNegativeNumber);
  option("--temperature", "0: always the likeliest")->check(CLI::NonNegativeNumber);
  option("--top-k", "sample from so many; 0: from all")->check(CLI::NonNegativeNumber);
  option("--seed", "of the sampling")->check(CLI::NonNegativeNumber);
  generate->callback([&] { action = [&] { return RunGenerate(arguments); }; });
}

absl::Status FinishConnection(Arguments& arguments, const CLI::App& app) {
  if (arguments.connection.address.empty()) {
    const char* given = std::getenv("MEDLEY_COORDINATOR");
    arguments.connection.address = given != nullptr && *given != '\0' ? given : "127.0.0.1:7070";
  }
  arguments.connection.timeout = absl::Seconds(arguments.timeout_seconds);
  if (arguments.output == "json") arguments.connection.output = Output::kJson;
  if (arguments.output == "cluster") {
    if (!app.got_subcommand("nodes"))
      return absl::InvalidArgumentError("--output: cluster is for `medley nodes` only");
    arguments.connection.output = Output::kCluster;
  }
  return absl::OkStatus();
}

int Report(const absl::Status& status) {
  if (status.ok()) return kDone;
  std::fflush(stdout);
  std::fprintf(stderr, "medley: %s\n", std::string(status.message()).c_str());
  return absl::IsInvalidArgument(status) ? kBadInput : kFailed;
}

int Main(int argc, char** argv) {
  CLI::App app("Trains one model on whatever accelerators there are.", "medley");
  app.require_subcommand(1);
  app.fallthrough();
  Arguments arguments;
  Action action;
  app.add_option("--coordinator", arguments.connection.address,
                 "HOST:PORT; default: MEDLEY_COORDINATOR, or 127.0.0.1:7070");
  app.add_option("--output", arguments.output, "text or json")
      ->check(CLI::IsMember({"text", "json", "cluster"}));
  app.add_option("--timeout", arguments.timeout_seconds, "seconds that a call may take")
      ->check(CLI::Range(0.001, 1e6))
      ->capture_default_str();
  AddSpecCommands(app, arguments, action);
  AddJobCommands(app, arguments, action);
  AddOtherCommands(app, arguments, action);
  AddLinksCommand(app, arguments.connection, action);
  AddAlignCommand(app, arguments.connection.output, action);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kDone : kBadInput;
  }
  if (const absl::Status status = FinishConnection(arguments, app); !status.ok()) return Report(status);
  // Before gRPC's threads start: they are to leave Ctrl-C to the one that waits for it.
  if (arguments.watch || app.got_subcommand("watch")) BlockInterrupts();
  return Report(action());
}

}  // namespace
}  // namespace medley

int main(int argc, char** argv) { return medley::Main(argc, argv); }
