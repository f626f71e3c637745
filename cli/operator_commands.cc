#include "cli/operator_commands.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "cli/coordinator_client.h"
#include "cli/debug_bundle.h"
#include "cli/progress.h"
#include "cli/repeated_option.h"
#include "cli/text_table.h"
#include "cli/time_option.h"
#include "runtime/base/counted.h"
#include "runtime/base/status_macros.h"
#include "runtime/base/unix_time.h"
#include "runtime/wire/json_message.h"

namespace medley {
namespace {

constexpr uint32_t kMostJobs = 100000;

struct OperatorCommand {
  std::string node, job, file, older_than = "30d";
  std::vector<std::string> directories, jobs;
  uint32_t keep = 0;
  bool failed = false, dry_run = false;
};

const char* LevelName(v1::FindingLevel level) {
  return level == v1::FINDING_LEVEL_GOOD ? "ok" : level == v1::FINDING_LEVEL_WARNING ? "warning" : "error";
}

std::string FormatChecks(const v1::CheckNodesResponse& checks, size_t columns) {
  std::vector<std::vector<std::string>> rows = {{"node", "", "what", "found"}};
  for (const v1::NodeCheck& node : checks.nodes()) {
    if (!node.failure().empty()) rows.push_back({node.node(), "error", "agent", Printable(node.failure())});
    for (const v1::Finding& finding : node.findings()) {
      rows.push_back(
          {node.node(), LevelName(finding.level()), Printable(finding.subject()), Printable(finding.text())});
    }
  }
  return FormatTable(rows, columns);
}

absl::Status RunCheck(const Connection& connection, const OperatorCommand& command) {
  v1::CheckNodesRequest request;
  request.set_node(command.node);
  request.mutable_directories()->Add(command.directories.begin(), command.directories.end());
  const absl::StatusOr<v1::CheckNodesResponse> checks = Connect(connection).CheckNodes(request);
  RETURN_IF_ERROR(Show(connection, checks, [&](const v1::CheckNodesResponse& reply) {
    return FormatChecks(reply, connection.columns);
  }));
  // None is not fit either: a script that goes by the status would start jobs.
  if (checks->nodes().empty()) return absl::FailedPreconditionError("no node is live: none was checked");
  std::vector<std::string> unfit;
  for (const v1::NodeCheck& node : checks->nodes()) {
    bool fit = node.failure().empty();
    for (const v1::Finding& finding : node.findings())
      fit = fit && finding.level() != v1::FINDING_LEVEL_ERROR;
    if (!fit) unfit.push_back(node.node());
  }
  if (unfit.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("not fit for jobs: ", absl::StrJoin(unfit, ", ")));
}

std::string FormatStacks(const v1::GetStacksResponse& stacks) {
  std::string text;
  for (int rank = 0; rank < stacks.tasks_size(); ++rank) {
    const v1::TaskStacks& task = stacks.tasks(rank);
    absl::StrAppend(&text, rank == 0 ? "" : "\n", "rank ", rank, ", ", task.device(), "\n\n");
    // Line by line: what a process says of itself is shown on a terminal.
    const std::string& said = task.failure().empty() ? task.text() : task.failure();
    for (const auto line : absl::StrSplit(said, '\n'))
      absl::StrAppend(&text, Printable(std::string(line)), "\n");
  }
  return text;
}

// What is deleted: jobs that ended before `before_seconds`, but for the newest `keep` of those that ended.
std::vector<v1::Job> Garbage(const v1::ListJobsResponse& jobs, double before_seconds,
                             const OperatorCommand& command) {
  std::vector<v1::Job> garbage;
  uint32_t kept = 0;
  for (const v1::Job& job : jobs.jobs()) {  // newest first
    if (!HasEnded(job.state()) || (command.failed && job.state() == v1::JOB_STATE_DONE)) continue;
    if (kept++ < command.keep || job.ended_at_seconds() >= before_seconds) continue;
    garbage.push_back(job);
  }
  return garbage;
}

absl::Status RunJobsGc(const Connection& connection, const OperatorCommand& command) {
  ASSIGN_OR_RETURN(const double length, ParseLength("--older-than", command.older_than));
  CoordinatorClient client = Connect(connection);
  ASSIGN_OR_RETURN(const v1::ListJobsResponse jobs, client.ListJobs(kMostJobs));
  std::vector<std::string> deleted;
  for (const v1::Job& job : Garbage(jobs, UnixSecondsNow() - length, command)) {
    if (!command.dry_run) {
      const absl::Status done = client.Delete(job.id());
      // Somebody else was faster.
      if (!done.ok() && !absl::IsNotFound(done)) return done;
    }
    deleted.push_back(job.id());
    if (connection.output == Output::kText)
      Print(absl::StrCat(command.dry_run ? "would delete " : "deleted ", job.id(), "\n"));
  }
  if (connection.output == Output::kJson) {
    for (std::string& id : deleted) id = JsonString(id);
    Print(absl::StrCat("{\"", command.dry_run ? "would_delete" : "deleted", "\": [",
                       absl::StrJoin(deleted, ", "), "]}\n"));
  } else {
    Print(absl::StrCat(Counted(deleted.size(), "job"), "; checkpoints stay\n"));
  }
  return absl::OkStatus();
}

}  // namespace

void AddOperatorCommands(CLI::App& app, const Connection& connection, std::function<absl::Status()>& action) {
  const auto command = std::make_shared<OperatorCommand>();
  const auto runs = [&](CLI::App* one, absl::Status (*run)(const Connection&, const OperatorCommand&)) {
    one->callback([command, run, &connection, &action] {
      action = [command, run, &connection] { return run(connection, *command); };
    });
  };

  CLI::App* check =
      app.add_subcommand("check", "whether nodes are fit for jobs: devices, limits, clocks, versions, disks");
  check->add_option("NODE", command->node, "this node alone; default: all live ones");
  AddRepeatedOption(
      *check, "--directory", command->directories,
      "of data or checkpoints: that it is there, and how fast 64 MiB are written; may be repeated");
  runs(check, RunCheck);

  CLI::App* debug = app.add_subcommand("debug", "for finding out what is wrong");
  debug->require_subcommand(1);
  CLI::App* bundle = debug->add_subcommand(
      "bundle", "all that is known of a cluster and its jobs, in one file for whoever helps");
  bundle->add_option("-o,--to", command->file, "file to write (.tar.gz)")->required();
  AddRepeatedOption(
      *bundle, "--job", command->jobs,
      "with the logs, steps, plan and trace of this job; may be repeated; default: the newest ten");
  runs(bundle, [](const Connection& to, const OperatorCommand& one) -> absl::Status {
    CoordinatorClient client = Connect(to);
    ASSIGN_OR_RETURN(const DebugBundle written, WriteDebugBundle(client, one.jobs, one.file));
    for (const std::string& missing : written.missing) Note(to, missing);
    Print(to.output == Output::kJson
              ? absl::StrCat("{\"file\": ", JsonString(one.file), ", \"missing\": ", written.missing.size(),
                             "}\n")
              : absl::StrCat(one.file, ": ", written.files,
                             " files; no keys and no contents of data or models are in it, but "
                             "names, paths and addresses are\n"));
    return absl::OkStatus();
  });
  CLI::App* stacks =
      debug->add_subcommand("stacks", "what all threads of a job's workers are doing at this moment");
  stacks->add_option("JOB", command->job, "id of the job")->required();
  runs(stacks, [](const Connection& to, const OperatorCommand& one) {
    return Show(to, Connect(to).GetStacks(one.job), FormatStacks);
  });

  CLI::App* jobs = app.add_subcommand("jobs", "many jobs at once");
  jobs->require_subcommand(1);
  CLI::App* gc = jobs->add_subcommand(
      "gc", "forget jobs that ended long ago, with their metrics and logs; checkpoints stay");
  gc->add_option("--older-than", command->older_than, "that ended so long ago, as in 12h or 90d")
      ->capture_default_str();
  gc->add_option("--keep", command->keep, "but for the newest so many")
      ->check(CLI::Range(0u, kMostJobs))
      ->capture_default_str();
  gc->add_flag("--failed", command->failed, "only those that failed or were cancelled");
  gc->add_flag("--dry-run", command->dry_run, "only say which");
  runs(gc, RunJobsGc);
}

}  // namespace medley
