#include "runtime/daemon/run_daemon.h"

#include <grpc/support/log.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "proto/medley/v1/config.pb.h"
#include "runtime/base/open_files.h"
#include "runtime/base/status_macros.h"
#include "runtime/base/version.h"
#include "runtime/daemon/daemon_config.h"
#include "runtime/log/log.h"
#include "runtime/security/key_exposure.h"
#include "runtime/wire/yaml_message.h"

namespace medley {
namespace {

constexpr int kFailed = 1, kWrongConfiguration = 2;

// Of the process, that SIGHUP reads again.
std::string& ConfigFile() {
  static std::string file;
  return file;
}

absl::Status Read(const Daemon& daemon, google::protobuf::Message* config) {
  return ReadDaemonConfig(ConfigFile(), daemon.environment_prefix, environ, config);
}

void StartLogOf(const Daemon& daemon) {
  const google::protobuf::FieldDescriptor* field =
      daemon.config->GetDescriptor()->FindFieldByName("log_format");
  const bool is_json =
      daemon.config->GetReflection()->GetEnumValue(*daemon.config, field) == v1::LOG_FORMAT_JSON;
  StartLog(is_json ? LogStyle::kJson : LogStyle::kText, daemon.log_name);
}

void SetLogLevelOf(const google::protobuf::Message& config) {
  const int level =
      config.GetReflection()->GetEnumValue(config, config.GetDescriptor()->FindFieldByName("log_level"));
  SetLogLevel(level == 0 ? LogLevel::kInfo : static_cast<LogLevel>(level));
}

// Of the keys that the configuration names.
std::vector<std::string> KeyWarnings(const google::protobuf::Message& config) {
  std::vector<std::string> warnings;
  for (const char* name : {"tls", "join"}) {
    const google::protobuf::FieldDescriptor* field = config.GetDescriptor()->FindFieldByName(name);
    if (field == nullptr || !config.GetReflection()->HasField(config, field)) continue;
    const google::protobuf::Message& section = config.GetReflection()->GetMessage(config, field);
    const std::string key =
        section.GetReflection()->GetString(section, section.GetDescriptor()->FindFieldByName("key"));
    std::string warning = KeyExposure(absl::StrCat(name, ".key"), key);
    if (!warning.empty()) warnings.push_back(std::move(warning));
  }
  return warnings;
}

void Reload(const Daemon& daemon) {
  const std::unique_ptr<google::protobuf::Message> config(daemon.config->New());
  absl::Status read = Read(daemon, config.get());
  if (read.ok()) read = daemon.fill_defaults(config.get());
  if (!read.ok()) {
    LogError(absl::StrCat("the configuration stays as it was: ", read.message()));
    return;
  }
  std::vector<std::string> later = ChangedFields(*daemon.config, *config);
  const bool has_level = std::erase(later, "log_level") > 0;
  if (has_level) SetLogLevelOf(*config);
  LogInfo(absl::StrCat(
      "read the configuration again", has_level ? "; log_level has changed" : "",
      later.empty() ? ""
                    : absl::StrCat("; these take effect at the next start: ", absl::StrJoin(later, ", "))));
}

int Say(const Daemon& daemon, const absl::Status& failure, int exit_status) {
  std::fprintf(stderr, "%s: %s\n", daemon.name.c_str(), std::string(failure.message()).c_str());
  return exit_status;
}

}  // namespace

void ServeUntilStopped(const Daemon& daemon, const std::string& status, std::function<void()> is_well) {
  TellReady(status);
  const int signal = WaitForStop({.is_well = std::move(is_well), .reload = [&daemon] { Reload(daemon); }});
  LogInfo(absl::StrCat("stopping on ", signal == SIGINT ? "SIGINT" : "SIGTERM"));
}

int RunDaemon(int argc, char** argv, const Daemon& daemon) {
  RaiseOpenFilesLimit();
  CLI::App app(daemon.description, daemon.name);
  app.set_version_flag("--version", absl::StrCat(daemon.name, " ", kMedleyVersion));
  bool checks = false, shows = false;
  std::string restored_file;
  app.add_option(
      "--config", ConfigFile(),
      absl::StrCat("YAML (proto/medley/v1/config.proto); defaults without it. The environment goes "
                   "before it: ",
                   daemon.environment_prefix, "LOG_LEVEL and so on, for each field"));
  app.add_flag("--check-config", checks,
               "only says whether the configuration is in order; exits with 2 if it is not");
  app.add_flag("--show-config", shows,
               "only shows the configuration in effect, with what was left open filled in");
  if (daemon.restore)
    app.add_option("--restore", restored_file,
                   "only makes a store of a file that `medley backup` wrote, where state_directory has none");
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& asked) {
    return app.exit(asked);  // --help, --version
  } catch (const CLI::ParseError& error) {
    const std::string what = absl::StrReplaceAll(error.what(), {{"\n", " "}});
    return Say(daemon, absl::InvalidArgumentError(absl::StrCat(what, " (", daemon.name, " --help)")),
               kWrongConfiguration);
  }
  BlockDaemonSignals();
  if (const absl::Status read = Read(daemon, daemon.config); !read.ok())
    return Say(daemon, read, kWrongConfiguration);
  if (const absl::Status filled = daemon.fill_defaults(daemon.config); !filled.ok())
    return Say(daemon, filled, checks || absl::IsInvalidArgument(filled) ? kWrongConfiguration : kFailed);
  if (shows) std::fputs(WriteYaml(*daemon.config).c_str(), stdout);
  if (checks) {
    for (const std::string& warning : KeyWarnings(*daemon.config))
      std::fprintf(stderr, "%s: warning: %s\n", daemon.name.c_str(), warning.c_str());
    std::puts("the configuration is in order");
  }
  if (shows || checks) return 0;
  if (!restored_file.empty()) {
    if (const absl::Status restored = daemon.restore(restored_file); !restored.ok())
      return Say(daemon, restored, kFailed);
    std::printf("restored %s\n", restored_file.c_str());
    return 0;
  }
  SetLogLevelOf(*daemon.config);
  StartLogOf(daemon);
  gpr_set_log_function([](gpr_log_func_args* said) { LogDebug(absl::StrCat("gRPC: ", said->message)); });
  for (const std::string& warning : KeyWarnings(*daemon.config)) LogWarning(warning);
  const absl::Status status = daemon.serve();
  EndLog();
  return status.ok() ? 0
                     : Say(daemon, status, absl::IsInvalidArgument(status) ? kWrongConfiguration : kFailed);
}

}  // namespace medley
