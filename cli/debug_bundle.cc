#include "cli/debug_bundle.h"

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/child_process.h"
#include "cli/output_file.h"
#include "cli/progress.h"
#include "cli/temporary_folder.h"
#include "cli/views.h"
#include "runtime/base/status_macros.h"
#include "runtime/base/version.h"
#include "runtime/wire/yaml_message.h"

namespace medley {
namespace {

namespace fs = std::filesystem;

constexpr int kUsualJobs = 10;
constexpr uint32_t kSteps = 10000, kLogLines = 10000, kAuditRecords = 10000;

class Gatherer {
 public:
  Gatherer(CoordinatorClient& client, const std::string& folder) : client_(client), folder_(folder) {}

  absl::Status Write(const std::string& name, const std::string& text) {
    ++bundle_.files;
    const fs::path parent = fs::path(folder_ + "/" + name).parent_path();
    std::error_code error;
    fs::create_directories(parent, error);
    if (error)
      return absl::UnavailableError(absl::StrCat("cannot make ", parent.string(), ": ", error.message()));
    return WriteOutputFile(folder_ + "/" + name, text);
  }

  // A coordinator that does not answer is the end; what it refuses is missing.
  template <typename Message>
  absl::Status Add(const std::string& name, const absl::StatusOr<Message>& answer) {
    if (answer.ok()) return Write(name, JsonLine(*answer));
    if (absl::IsUnavailable(answer.status()) && bundle_.files == 0) return answer.status();
    bundle_.missing.push_back(absl::StrCat(name, ": ", answer.status().message()));
    return absl::OkStatus();
  }

  absl::Status AddCluster() {
    RETURN_IF_ERROR(Add("nodes.json", client_.ListNodes()));
    RETURN_IF_ERROR(Write("versions.json", absl::StrCat("{\"medley\": \"", kMedleyVersion, "\"}\n")));
    RETURN_IF_ERROR(Add("jobs.json", client_.ListJobs(0)));
    RETURN_IF_ERROR(Add("links.json", client_.ListLinks({})));
    CallHandle kernels;
    RETURN_IF_ERROR(Add("kernels.json", client_.ListKernels("", kernels)));
    RETURN_IF_ERROR(Add("checks.json", client_.CheckNodes({})));
    v1::ListAuditRequest audit;
    audit.set_limit(kAuditRecords);
    RETURN_IF_ERROR(Add("audit.json", client_.ListAudit(audit)));
    const absl::StatusOr<v1::ClusterSpec> cluster = client_.ExportCluster();
    if (cluster.ok()) return Write("cluster.yaml", WriteYaml(*cluster));
    return Add("cluster.yaml", cluster);
  }

  absl::Status AddJob(const v1::Job& job) {
    const std::string folder = absl::StrCat("jobs/", job.id(), "/");
    RETURN_IF_ERROR(Write(folder + "job.json", JsonLine(job)));
    RETURN_IF_ERROR(Write(folder + "job.yaml", WriteYaml(job.spec())));
    v1::ListLogsRequest logs;
    logs.set_job_id(job.id());
    logs.set_limit(kLogLines);
    RETURN_IF_ERROR(Add(folder + "logs.json", client_.ListLogs(logs)));
    v1::ListStepsRequest steps;
    steps.set_job_id(job.id());
    steps.set_limit(kSteps);
    RETURN_IF_ERROR(Add(folder + "steps.json", client_.ListSteps(steps)));
    RETURN_IF_ERROR(Add(folder + "trace.json", client_.GetTrace(job.id(), 0)));
    if (!HasEnded(job.state()) && job.tasks_size() > 0)
      RETURN_IF_ERROR(Add(folder + "stacks.json", client_.GetStacks(job.id())));
    return absl::OkStatus();
  }

  absl::StatusOr<DebugBundle> Finish() {
    if (!bundle_.missing.empty())
      RETURN_IF_ERROR(Write("missing.txt", absl::StrJoin(bundle_.missing, "\n") + "\n"));
    return bundle_;
  }

 private:
  CoordinatorClient& client_;
  const std::string& folder_;
  DebugBundle bundle_;
};

absl::StatusOr<std::vector<v1::Job>> JobsOf(CoordinatorClient& client,
                                            const std::vector<std::string>& asked) {
  std::vector<std::string> ids = asked;
  if (asked.empty()) {
    ASSIGN_OR_RETURN(const v1::ListJobsResponse newest, client.ListJobs(kUsualJobs));
    for (const v1::Job& job : newest.jobs()) ids.push_back(job.id());
  }
  std::vector<v1::Job> jobs;
  // A list does not have all of a job.
  for (const std::string& id : ids) {
    const absl::StatusOr<v1::Job> job = client.GetJob(id);
    if (absl::IsNotFound(job.status())) {
      if (asked.empty()) continue;  // deleted since it was listed
      return absl::InvalidArgumentError(absl::StrCat("--job: ", job.status().message()));
    }
    RETURN_IF_ERROR(job.status());
    jobs.push_back(*job);
  }
  return jobs;
}

absl::Status Pack(const std::string& folder, const std::string& log, const std::string& file) {
  ASSIGN_OR_RETURN(
      ChildProcess tar,
      ChildProcess::Start(
          {.name = "tar",
           .program = "/bin/tar",
           // A name with a colon is a file all the same, none of another machine.
           .arguments = {"--create", "--gzip", "--force-local", "--file", file, "--directory", folder, "."},
           .log_file = log}));
  tar.Wait(absl::InfiniteFuture());
  if (tar.Ended() == "exited with 0") return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("cannot write ", file, ": tar ", *tar.Ended(), ": ", tar.LastWords(1)));
}

}  // namespace

absl::StatusOr<DebugBundle> WriteDebugBundle(CoordinatorClient& client, const std::vector<std::string>& jobs,
                                             const std::string& file) {
  if (file == "-")
    return absl::InvalidArgumentError("--to -: a bundle is written to a file, not to standard output");
  std::error_code unseen;
  if (fs::exists(file, unseen))
    return absl::InvalidArgumentError(
        absl::StrCat("--to: ", file, " is there already; it is not written over"));
  RETURN_IF_ERROR(CheckOutputFile("--to", file));
  ASSIGN_OR_RETURN(const std::vector<v1::Job> asked, JobsOf(client, jobs));
  ASSIGN_OR_RETURN(const std::unique_ptr<TemporaryFolder> folder, TemporaryFolder::Create("medley-bundle"));
  const std::string content = folder->path() + "/content";
  Gatherer gatherer(client, content);
  RETURN_IF_ERROR(gatherer.AddCluster());
  for (const v1::Job& job : asked) RETURN_IF_ERROR(gatherer.AddJob(job));
  ASSIGN_OR_RETURN(DebugBundle bundle, gatherer.Finish());
  RETURN_IF_ERROR(Pack(content, folder->path() + "/tar.log", file));
  return bundle;
}

}  // namespace medley
