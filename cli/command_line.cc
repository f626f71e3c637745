#include "cli/command_line.h"

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "cli/align_command.h"
#include "cli/certificates_command.h"
#include "cli/commands.h"
#include "cli/completion.h"
#include "cli/coordinator_client.h"
#include "cli/generate_command.h"
#include "cli/goal_options.h"
#include "cli/input_file.h"
#include "cli/interrupts.h"
#include "cli/job_commands.h"
#include "cli/join_token_command.h"
#include "cli/links_command.h"
#include "cli/local_cluster.h"
#include "cli/operator_commands.h"
#include "cli/output_file.h"
#include "cli/repeated_option.h"
#include "cli/spec_commands.h"
#include "cli/terminal.h"
#include "cli/time_option.h"
#include "cli/trace_steps_command.h"
#include "runtime/base/status_macros.h"
#include "runtime/base/unix_time.h"
#include "runtime/base/version.h"
#include "runtime/log/request_id.h"
#include "runtime/security/key_exposure.h"
#include "runtime/wire/address.h"
#include "runtime/wire/json_message.h"
#include "runtime/wire/nearest_name.h"

namespace medley {
namespace {

constexpr int kDone = 0, kFailed = 1, kBadInput = 2, kInterrupted = 130;
constexpr uint32_t kMostListed = 100000;
constexpr uint32_t kMostTracedSteps = 1000;
constexpr uint32_t kMostSteps = 1'000'000'000;  // as JobSpec.steps

// What the chosen command will do.
using Action = std::function<absl::Status()>;

struct Arguments {
  Connection connection;
  double timeout_seconds = absl::ToDoubleSeconds(kUsualTimeout);
  std::string coordinator, certificates, output = "text", job, node, file, directory, since, shell, page_file,
                                         source;
  uint32_t limit = 0, step = 0, steps = 0;
  std::vector<std::string> sets;
  SubmitCommand submit;
  PlanCommand plan;
  WhatIfCommand what_if;
  GoalOptions goal;
  bool watch = false, explain = false, kernels = false, follow = false, checkpoint = false, force = false,
       verbose = false;
};

absl::Status RunUp(const Arguments& arguments) {
  LocalClusterOptions options;
  options.directory = arguments.directory.empty() ? "medley-local" : arguments.directory;
  if (!arguments.file.empty()) RETURN_IF_ERROR(ReadInputFile(arguments.file, &options.config));
  BlockInterrupts();
  return RunLocalCluster(options);
}

// A command that names a job and does one thing with it.
CLI::App* AddJobCommand(CLI::App& app, Arguments& arguments, Action& action, const char* name,
                        const char* what, std::function<absl::Status()> run) {
  CLI::App* command = app.add_subcommand(name, what);
  command->add_option("JOB", arguments.job, "id of the job")->required();
  command->callback([&action, run = std::move(run)] { action = run; });
  return command;
}

void AddSpecOptions(CLI::App& command, SpecSource& source) {
  command.add_option("FILE", source.file, "job spec (YAML); - for standard input")->required();
  AddRepeatedOption(
      command, "--set", source.sets,
      "FIELD=VALUE takes the place of what the file says, as in optimizer.learning_rate=1e-3; may be "
      "repeated");
}

void AddPageOption(CLI::App& command, Arguments& arguments) {
  command.add_option(
      "--html", arguments.page_file,
      "also write a page to look at: who does what when, memory, and why; - for standard output");
}

void AddSpecCommands(CLI::App& app, Arguments& arguments, Action& action) {
  CLI::App* submit = app.add_subcommand("submit", "queue a job; prints its id");
  AddSpecOptions(*submit, arguments.submit.spec);
  submit->add_flag("-w,--watch", arguments.watch, "show its progress until it has ended");
  submit->add_option("--request-id", arguments.submit.request_id,
                     "a repeat with the same one is the same job");
  submit->callback([&] {
    arguments.submit.then = arguments.watch ? AfterSubmit::kWatch : AfterSubmit::kReturn;
    action = [&] { return RunSubmit(arguments.connection, arguments.submit); };
  });
  CLI::App* plan = app.add_subcommand("plan", "how a job would run; starts nothing");
  AddSpecOptions(*plan, arguments.plan.spec);
  plan->add_flag("--explain", arguments.explain, "also why it would not run otherwise");
  plan->add_option("--cluster", arguments.plan.cluster_file,
                   "cluster (YAML) to plan for, without a coordinator");
  plan->add_option(
      "--kinds", arguments.plan.kinds_directory,
      "with --cluster: directory of data sheets (profiles/) for kinds that have no profile there");
  AddPageOption(*plan, arguments);
  plan->add_option("--time-limit", arguments.plan.time_limit_seconds,
                   "seconds of planning after which the best plan so far is shown, not proven to be optimal")
      ->check(CLI::Range(0.001, 1e6));
  AddGoalOptions(*plan, arguments.goal);
  plan->add_flag("--pareto", arguments.plan.with_pareto,
                 "also list what there is of time against price; takes as long as planning some ten times");
  plan->callback([&] {
    arguments.plan.detail = arguments.explain ? PlanDetail::kExplanation : PlanDetail::kSummary;
    arguments.plan.page_file = arguments.page_file;
    action = [&]() -> absl::Status {
      ASSIGN_OR_RETURN(arguments.plan.spec.overrides, OverridesOf(arguments.goal));
      return RunPlan(arguments.connection, arguments.plan);
    };
  });
}

void AddWhatIfCommand(CLI::App& app, Arguments& arguments, Action& action) {
  CLI::App* what_if = app.add_subcommand(
      "what-if", "how a job would run on a cluster with other devices or links, beside today's");
  WhatIfCommand& command = arguments.what_if;
  AddSpecOptions(*what_if, command.spec);
  what_if->add_option("--today", command.today_file, "today's cluster (YAML); default: the coordinator's");
  what_if->add_option("--cluster", command.cluster_file, "another cluster (YAML) in the place of today's");
  AddRepeatedOption(*what_if, "--remove", command.changes.removes,
                    "NODE, group of nodes or NODE/DEVICE that is gone; may be repeated");
  AddRepeatedOption(*what_if, "--add", command.changes.adds,
                    "kind=K,count=N: a node more with N devices of kind K; behind these, if wanted, "
                    ",node=NAME ,price=PER_HOUR ,site=SITE and "
                    ",rack=RACK; may be repeated");
  AddRepeatedOption(
      *what_if, "--link", command.changes.links,
      "A-B=10Gbit[,50us]: another link between kinds, nodes, sites or devices; may be repeated");
  what_if->add_option(
      "--kinds", command.kinds_directory,
      "directory of data sheets (profiles/) for kinds that have no profile; default: for those of "
      "--add alone, /usr/share/medley/profiles or else profiles");
  AddGoalOptions(*what_if, arguments.goal);
  what_if
      ->add_option("--time-limit", command.time_limit_seconds,
                   "seconds of planning, of each of the two, after which the best plan so far is shown")
      ->check(CLI::Range(0.001, 1e6));
  what_if->callback([&] {
    action = [&]() -> absl::Status {
      ASSIGN_OR_RETURN(arguments.what_if.spec.overrides, OverridesOf(arguments.goal));
      return RunWhatIf(arguments.connection, arguments.what_if);
    };
  });
}

void AddLimit(CLI::App& command, Arguments& arguments, const char* what) {
  command.add_option("-n,--limit", arguments.limit, what)->check(CLI::Range(1u, kMostListed));
}

// `logs` and `steps`.
CLI::App* AddListing(CLI::App& app, Arguments& arguments, Action& action, const char* name, const char* what,
                     absl::Status (*run)(const Connection&, const ListingCommand&)) {
  CLI::App* command = AddJobCommand(app, arguments, action, name, what, [&arguments, run]() -> absl::Status {
    ListingCommand listing{.job_id = arguments.job,
                           .limit = arguments.limit,
                           .source = arguments.source,
                           .follow = arguments.follow};
    if (!arguments.since.empty()) {
      const double now = UnixSecondsNow();
      ASSIGN_OR_RETURN(listing.since_seconds, ParseSince(arguments.since, now));
    }
    return run(arguments.connection, listing);
  });
  AddLimit(*command, arguments, "the newest so many");
  command->add_option("--since", arguments.since,
                      "those since then: so long ago, as in 10m or 2d, or a moment in UTC");
  command->add_flag("-f,--follow", arguments.follow, "also those that come, until the job has ended");
  return command;
}

void AddJobCommands(CLI::App& app, Arguments& arguments, Action& action) {
  CLI::App* status = app.add_subcommand("status", "all jobs, or one of them");
  status->add_option("JOB", arguments.job, "id of the job");
  status->add_flag("-w,--watch", arguments.watch, "again every second");
  AddLimit(*status, arguments, "the newest so many jobs; default: 100");
  status->callback([&] {
    action = [&] {
      return RunStatus(arguments.connection,
                       {.job_id = arguments.job, .limit = arguments.limit, .watch = arguments.watch});
    };
  });
  const auto of_job = [&](const char* name, const char* what, auto run) {
    return AddJobCommand(app, arguments, action, name, what,
                         [&arguments, run] { return run(arguments.connection, arguments.job); });
  };
  of_job("watch", "progress of a job until it has ended", RunWatch);
  AddListing(app, arguments, action, "logs", "what happened to a job", RunLogs)
      ->add_option("--device", arguments.source, "only what this said: NODE/DEVICE, a node, or coordinator");
  AddListing(app, arguments, action, "steps", "metrics of a job's steps", RunSteps);
  AddPageOption(*of_job("explain", "the plan of a job, and why others would be slower",
                        [&arguments](const Connection& connection, const std::string& job) {
                          return RunExplain(connection, job, arguments.page_file);
                        }),
                arguments);
  of_job("cancel", "end a job", [&arguments](const Connection& connection, const std::string& job) {
    return RunCancel(connection, job, arguments.checkpoint ? CancelWhen::kAfterCheckpoint : CancelWhen::kNow);
  })->add_flag("--checkpoint", arguments.checkpoint, "after its current step and a checkpoint");
  of_job("resume", "a job that failed or was cancelled goes on from its newest checkpoint", RunResume);
  of_job("replan", "plan a running job anew, on all devices that are free now, and move it if that is faster",
         [&arguments](const Connection& connection, const std::string& job) {
           return RunReplan(connection, job, arguments.force ? ReplanWhen::kAlways : ReplanWhen::kIfFaster);
         })
      ->add_flag("--force", arguments.force, "also if the new plan is not faster");
  of_job("hold", "keep a job that waits from being started", RunHold);
  of_job("release", "let a held job go", RunRelease);
  of_job("delete", "forget a job that has ended; its checkpoints stay", RunDelete);

  CLI::App* trace = AddJobCommand(
      app, arguments, action, "trace",
      "predicted and measured times of a step, or of the next ones, for Perfetto", [&] {
        const std::string file =
            arguments.file.empty() ? absl::StrCat(arguments.job, "-trace.json") : arguments.file;
        return arguments.steps > 0 ? RunTraceSteps(arguments.connection, arguments.job, arguments.steps, file)
                                   : RunTrace(arguments.connection, arguments.job, arguments.step, file);
      });
  trace->add_option("-o,--to", arguments.file,
                    "file to write; - for standard output; default: JOB-trace.json");
  CLI::Option* step = trace->add_option("--step", arguments.step, "one that was traced; default: the newest")
                          ->check(CLI::Range(1u, kMostSteps));
  trace
      ->add_option("--steps", arguments.steps,
                   "the next so many steps of a running job, which goes on as it is: 1 to 1000")
      ->check(CLI::Range(1u, kMostTracedSteps))
      ->excludes(step);

  CLI::App* exported =
      AddJobCommand(app, arguments, action, "export", "the newest checkpoint as a model of Hugging Face",
                    [&] { return RunExport(arguments.connection, arguments.job, arguments.directory); });
  exported->add_option("--to", arguments.directory, "folder to write")->required();
}

void AddOtherCommands(CLI::App& app, Arguments& arguments, Action& action) {
  CLI::App* nodes = app.add_subcommand("nodes",
                                       "nodes and their devices; --output cluster: as a file for plan "
                                       "--cluster, nodes that are alike as one group");
  nodes->add_flag("--kernels", arguments.kernels, "which kernels run the ops of their devices, and why");
  nodes->add_option("NODE", arguments.node, "this node alone");
  nodes->callback([&] {
    action = [&] {
      return arguments.kernels ? RunKernels(arguments.connection, arguments.node)
                               : RunNodes(arguments.connection, arguments.node);
    };
  });
  CLI::App* forget = app.add_subcommand("forget", "forget a node that is lost");
  forget->add_option("NODE", arguments.node, "name of the node")->required();
  forget->callback([&] { action = [&] { return RunForget(arguments.connection, arguments.node); }; });

  CLI::App* drain =
      app.add_subcommand("drain", "no job starts on a node any more, and those that train there leave it");
  drain->add_option("NODE", arguments.node, "name of the node")->required();
  drain->add_flag("--now", arguments.force,
                  "also jobs that have no checkpoint.directory, which begin anew elsewhere");
  drain->callback(
      [&] { action = [&] { return RunDrain(arguments.connection, arguments.node, arguments.force); }; });
  CLI::App* undrain = app.add_subcommand("undrain", "jobs may start on a node again");
  undrain->add_option("NODE", arguments.node, "name of the node")->required();
  undrain->callback([&] { action = [&] { return RunUndrain(arguments.connection, arguments.node); }; });
  CLI::App* backup = app.add_subcommand("backup", "the coordinator's store as a file, while it goes on");
  backup->add_option("FILE", arguments.file, "file to write")->required();
  backup->callback([&] { action = [&] { return RunBackup(arguments.connection, arguments.file); }; });
  CLI::App* audit = app.add_subcommand("audit", "who changed what, and who was refused");
  AddLimit(*audit, arguments, "the newest so many; default: 1000");
  audit->add_option("--since", arguments.since,
                    "those since then: so long ago, as in 10m or 2d, or a moment in UTC");
  audit->callback([&] {
    action = [&]() -> absl::Status {
      double since_seconds = 0;
      if (!arguments.since.empty()) {
        const double now = UnixSecondsNow();
        ASSIGN_OR_RETURN(since_seconds, ParseSince(arguments.since, now));
      }
      return RunAudit(arguments.connection, arguments.limit, since_seconds);
    };
  });

  CLI::App* up = app.add_subcommand("up", "a coordinator and agents on this machine, until Ctrl-C");
  up->add_option("--config", arguments.file,
                 "cluster (YAML of LocalClusterConfig); default: one agent, all devices");
  up->add_option("--directory", arguments.directory, "for state and logs; default: medley-local");
  up->callback([&] { action = [&] { return RunUp(arguments); }; });

  CLI::App* completion =
      app.add_subcommand("completion", "a script that completes commands and options in a shell");
  completion->add_option("SHELL", arguments.shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  completion->callback([&] {
    action = [&] {
      Print(CompletionScript(app, arguments.shell));
      return absl::OkStatus();
    };
  });
}

// Whether the command that was chosen is one that needs a coordinator.
bool AsksCoordinator(const CLI::App& app) {
  for (const char* local : {"align", "certs", "completion", "generate", "up"}) {
    if (app.got_subcommand(local)) return false;
  }
  return true;
}

absl::Status FinishConnection(Arguments& arguments, const CLI::App& app) {
  Connection& connection = arguments.connection;
  std::string field = "--coordinator", address = arguments.coordinator;
  if (address.empty() && app.count("--coordinator") == 0) {
    field = "MEDLEY_COORDINATOR";
    const char* given = std::getenv("MEDLEY_COORDINATOR");
    address = given != nullptr && *given != '\0' ? given : "127.0.0.1";
  }
  ASSIGN_OR_RETURN(connection.address, CompleteAddress(field, address, kCoordinatorPort));
  std::string folder_field = "--certificates", folder = arguments.certificates;
  if (folder.empty()) {
    folder_field = "MEDLEY_CERTIFICATES";
    const char* given = std::getenv("MEDLEY_CERTIFICATES");
    folder = given != nullptr ? given : "";
  }
  if (AsksCoordinator(app)) {
    ASSIGN_OR_RETURN(connection.tls, PersonalTls(folder_field, folder));
    const std::string warning =
        connection.tls.has_value() ? KeyExposure(folder_field, connection.tls->key()) : "";
    if (!warning.empty()) std::fprintf(stderr, "medley: warning: %s\n", warning.c_str());
  }
  if (app.count("--timeout") > 0) connection.timeout = absl::Seconds(arguments.timeout_seconds);
  connection.columns = TerminalColumns();
  if (arguments.output == "json") connection.output = Output::kJson;
  if (arguments.output == "cluster") {
    if (!app.got_subcommand("nodes"))
      return absl::InvalidArgumentError("--output: cluster is for `medley nodes` only");
    connection.output = Output::kCluster;
  }
  return absl::OkStatus();
}

int ExitCodeOf(const absl::Status& status) {
  if (status.ok()) return kDone;
  if (absl::IsCancelled(status)) return kInterrupted;
  return absl::IsInvalidArgument(status) ? kBadInput : kFailed;
}

// What was answered must have reached whoever asked: a full disk is noticed when the last of it is written.
absl::Status FinishOutput() {
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return absl::OkStatus();
  return CannotWrite("to standard output");
}

int Report(absl::Status status, Output output, bool with_request = false) {
  if (const absl::Status written = FinishOutput(); status.ok()) status = written;
  const std::string message(status.message());
  const std::string request(status.GetPayload(kRequestIdKey).value_or(absl::Cord()));
  const bool names_request = with_request && !request.empty();
  if (!status.ok() && !message.empty()) {
    if (output == Output::kJson) {
      const std::string code = absl::AsciiStrToLower(absl::StatusCodeToString(status.code()));
      std::fprintf(stderr, "{\"error\": %s, \"code\": %s%s}\n", JsonString(message).c_str(),
                   JsonString(code).c_str(),
                   names_request ? absl::StrCat(", \"request\": ", JsonString(request)).c_str() : "");
    } else {
      std::fprintf(stderr, "medley: %s%s\n", message.c_str(),
                   names_request ? absl::StrCat(" (request ", request, ")").c_str() : "");
    }
  }
  return ExitCodeOf(status);
}

// The value of --output, looked for by hand: of a command line that is wrong nothing was read.
Output AskedOutput(const std::vector<std::string>& words) {
  for (size_t i = 0; i < words.size(); ++i) {
    const bool apart = words[i] == "--output" && i + 1 < words.size() && words[i + 1] == "json";
    if (apart || words[i] == "--output=json") return Output::kJson;
  }
  return Output::kText;
}

// Those that are neither an option nor the value of one that goes with every command.
std::vector<std::string> BareWords(const std::vector<std::string>& words) {
  std::vector<std::string> bare;
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--coordinator" || words[i] == "--certificates" || words[i] == "--output" ||
        words[i] == "--timeout") {
      ++i;
    } else if (!absl::StartsWith(words[i], "-")) {
      bare.push_back(words[i]);
    }
  }
  return bare;
}

std::vector<std::string> CommandNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
  }
  return names;
}

// `of`: "medley", or "medley certs" and the like, whose commands `app` has.
std::string NoCommand(const CLI::App& app, const std::string& of, const std::string& word) {
  const std::string nearest = NearestName(word, CommandNames(app));
  const std::string outer = of == "medley" ? "" : absl::StrCat(of.substr(of.find(' ') + 1), " ");
  return absl::StrCat("no command \"", outer, word, "\"; ",
                      nearest.empty() ? absl::StrCat(of, " --help lists them")
                                      : absl::StrCat("did you mean \"", outer, nearest, "\"?"));
}

// What is wrong with the command line, in one line.
std::string Explain(const CLI::App& app, const CLI::ParseError& error,
                    const std::vector<std::string>& words) {
  std::string command = "medley";
  const CLI::App* last = &app;
  size_t named = 0;
  for (std::vector<CLI::App*> chosen = app.get_subcommands(); !chosen.empty();
       chosen = last->get_subcommands()) {
    last = chosen[0];
    absl::StrAppend(&command, " ", last->get_name());
    ++named;
  }
  if (!CommandNames(*last).empty()) {
    const std::vector<std::string> bare = BareWords(words);
    if (bare.size() > named) return NoCommand(*last, command, bare[named]);
    if (words.size() == bare.size()) return absl::StrCat("no command; ", command, " --help lists them");
  }
  return absl::StrCat(absl::StrReplaceAll(error.what(), {{"\n", " "}}), " (", command, " --help)");
}

}  // namespace

int RunCommandLine(int argc, char** argv) {
  CLI::App app("Trains one model on whatever accelerators there are.", "medley");
  app.require_subcommand(1);
  app.fallthrough();
  app.set_version_flag("--version", absl::StrCat("medley ", kMedleyVersion));
  Arguments arguments;
  Action action;
  app.add_option("--coordinator", arguments.coordinator,
                 "HOST[:PORT]; default: MEDLEY_COORDINATOR, or 127.0.0.1:7070");
  app.add_option("--certificates", arguments.certificates,
                 "folder with certificate.pem, key.pem and authority.pem to show who you are; default: "
                 "MEDLEY_CERTIFICATES, or ~/.config/medley where it has them");
  app.add_option("--output", arguments.output, "text or json")
      ->check(CLI::IsMember({"text", "json", "cluster"}));
  app.add_option("--timeout", arguments.timeout_seconds,
                 "seconds that a call may take; where it is given, ten times as many, and 300 at least, for "
                 "one that plans, "
                 "measures or copies, which has no limit otherwise")
      ->check(CLI::Range(0.001, 1e6))
      ->capture_default_str();
  app.add_flag("--verbose", arguments.verbose,
               "with an error also the id of its request, by which the coordinator's log and audit have it");
  AddSpecCommands(app, arguments, action);
  AddWhatIfCommand(app, arguments, action);
  AddJobCommands(app, arguments, action);
  AddOtherCommands(app, arguments, action);
  AddGenerateCommand(app, arguments.connection.output, action);
  AddLinksCommand(app, arguments.connection, action);
  AddOperatorCommands(app, arguments.connection, action);
  AddCertificatesCommand(app, arguments.connection, action);
  AddJoinTokenCommand(app, arguments.connection, action);
  AddAlignCommand(app, arguments.connection.output, action);
  std::vector<std::string> words(argv + 1, argv + argc);
  // `medley help [COMMAND]` is `medley [COMMAND] --help`.
  if (!words.empty() && words[0] == "help") {
    words.erase(words.begin());
    const std::vector<std::string> bare = BareWords(words);
    if (!bare.empty() && !absl::c_linear_search(CommandNames(app), bare[0]))
      return Report(absl::InvalidArgumentError(NoCommand(app, "medley", bare[0])), AskedOutput(words));
    words.push_back("--help");
  }
  try {
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
  } catch (const CLI::Success& asked) {
    app.exit(asked);  // --help, --version
    return kDone;
  } catch (const CLI::ParseError& error) {
    return Report(absl::InvalidArgumentError(Explain(app, error, words)), AskedOutput(words));
  }
  if (const absl::Status status = FinishConnection(arguments, app); !status.ok()) {
    return Report(status, AskedOutput(words));
  }
  return Report(action(), arguments.connection.output, arguments.verbose);
}

}  // namespace medley
