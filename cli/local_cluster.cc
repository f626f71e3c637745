#include "cli/local_cluster.h"

#include <csignal>
#include <cstdio>
#include <ctime>
#include <deque>
#include <filesystem>
#include <fstream>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/child_process.h"
#include "cli/coordinator_client.h"
#include "cli/interrupts.h"
#include "cli/local_config.h"
#include "cli/output_file.h"
#include "cli/terminal.h"
#include "cli/views.h"
#include "runtime/base/clock.h"
#include "runtime/base/status_macros.h"
#include "runtime/wire/yaml_message.h"

namespace medley {
namespace {

constexpr absl::Duration kStartLimit = absl::Minutes(1);
constexpr absl::Duration kQuietWait = absl::Seconds(2);
constexpr absl::Duration kStopLimit = absl::Seconds(10);

class LocalCluster {
 public:
  LocalCluster(v1::LocalClusterConfig config, std::string directory)
      : config_(std::move(config)), directory_(std::move(directory)) {}

  ~LocalCluster() {
    const absl::Time deadline = Now() + kStopLimit;
    while (!children_.empty()) {
      // The coordinator came first and goes last, so that it hears of what the agents give up.
      const bool agents = children_.size() > 1;
      for (size_t i = agents ? 1 : 0; i < children_.size(); ++i) children_[i].Terminate();
      while (children_.size() > (agents ? 1 : 0)) {
        children_.back().Wait(deadline);
        children_.pop_back();
      }
    }
  }

  absl::Status Run() {
    RETURN_IF_ERROR(StartCoordinator());
    if (stopped_) return absl::OkStatus();
    for (v1::AgentConfig& agent : *config_.mutable_agents()) {
      if (agent.coordinator_address().empty()) agent.set_coordinator_address(address_);
      RETURN_IF_ERROR(Start("medley-agent", agent.name(), agent));
    }
    std::printf("coordinator  %s\nfiles        %s\n\n", address_.c_str(), directory_.c_str());
    std::fflush(stdout);
    RETURN_IF_ERROR(AwaitNodes());
    if (!stopped_) std::printf("\nReady. Ctrl-C stops everything.\n");
    std::fflush(stdout);
    while (!stopped_) RETURN_IF_ERROR(Pause(absl::Milliseconds(200)));
    return absl::OkStatus();
  }

 private:
  absl::Status Start(const std::string& program, const std::string& name,
                     const google::protobuf::Message& config) {
    ASSIGN_OR_RETURN(const std::string path, SiblingProgram(program));
    const std::string file = absl::StrCat(directory_, "/", name, ".yaml");
    RETURN_IF_ERROR(WriteOutputFile(file, WriteYaml(config)));
    ASSIGN_OR_RETURN(ChildProcess child,
                     ChildProcess::Start({.name = name == program ? name : absl::StrCat(program, " ", name),
                                          .program = path,
                                          .arguments = {"--config", file},
                                          .log_file = absl::StrCat(directory_, "/", name, ".log")}));
    children_.push_back(std::move(child));
    return absl::OkStatus();
  }

  absl::Status StartCoordinator() {
    const std::string& address_file = config_.coordinator().address_file();
    std::error_code ignored;
    std::filesystem::remove(address_file, ignored);
    RETURN_IF_ERROR(Start("medley-coordinator", "medley-coordinator", config_.coordinator()));
    const absl::Time deadline = Now() + kStartLimit;
    while (!stopped_) {
      std::ifstream file(address_file);
      if (std::getline(file, address_) && !address_.empty()) return absl::OkStatus();
      if (Now() > deadline)
        return absl::UnavailableError("medley-coordinator does not listen after a minute");
      SayWhatIsAwaited("medley-coordinator to listen");
      RETURN_IF_ERROR(Pause(absl::Milliseconds(50)));
    }
    return absl::OkStatus();
  }

  // Until all agents' leases are held.
  absl::Status AwaitNodes() {
    CoordinatorClient client(address_, absl::Seconds(5));
    const absl::Time deadline = Now() + kStartLimit;
    while (!stopped_) {
      std::set<std::string> missing;
      for (const v1::AgentConfig& agent : config_.agents()) missing.insert(agent.name());
      const absl::StatusOr<v1::ListNodesResponse> nodes = client.ListNodes();
      if (nodes.ok()) {
        for (const v1::Node& node : nodes->nodes()) {
          if (node.alive()) missing.erase(node.name());
        }
        if (missing.empty()) {
          std::fputs(FormatNodes(*nodes, TerminalColumns()).c_str(), stdout);
          return absl::OkStatus();
        }
      }
      SayWhatIsAwaited(
          absl::StrCat("the agents ", absl::StrJoin(missing, ", "), " to register",
                       nodes.ok() ? "" : absl::StrCat("; ", std::string(nodes.status().message()))));
      if (Now() > deadline) {
        return absl::UnavailableError(
            absl::StrCat("did not register within a minute: ", absl::StrJoin(missing, ", "),
                         "; their logs lie in ", directory_));
      }
      RETURN_IF_ERROR(Pause(absl::Milliseconds(100)));
    }
    return absl::OkStatus();
  }

  // Once what is waited for lasts, and again where it changes.
  void SayWhatIsAwaited(const std::string& what) {
    if (Now() - began_ < kQuietWait || what == said_) return;
    said_ = what;
    std::printf("waiting for %s ...\n", what.c_str());
    std::fflush(stdout);
  }

  // Lets time pass; looks for signals and dead children.
  absl::Status Pause(absl::Duration duration) {
    const sigset_t signals = Interrupts();
    const timespec limit = absl::ToTimespec(duration);
    if (sigtimedwait(&signals, nullptr, &limit) > 0) stopped_ = true;
    for (ChildProcess& child : children_) {
      const std::optional<std::string> ended = child.Ended();
      if (!ended || stopped_) continue;
      return absl::UnavailableError(absl::StrCat(child.name(), " ", *ended, ":\n", child.LastWords(5)));
    }
    return absl::OkStatus();
  }

  v1::LocalClusterConfig config_;
  const std::string directory_;
  const absl::Time began_ = Now();
  std::string address_, said_;
  std::deque<ChildProcess> children_;
  bool stopped_ = false;
};

}  // namespace

absl::Status RunLocalCluster(const LocalClusterOptions& options) {
  std::error_code error;
  std::filesystem::create_directories(options.directory, error);
  const std::string directory = error ? "" : std::filesystem::absolute(options.directory, error).string();
  if (error)
    return absl::UnavailableError(absl::StrCat("cannot make ", options.directory, ": ", error.message()));
  ASSIGN_OR_RETURN(v1::LocalClusterConfig config, CompleteLocalCluster(options.config, directory));
  return LocalCluster(std::move(config), directory).Run();
}

}  // namespace medley
