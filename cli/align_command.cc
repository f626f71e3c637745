#include "cli/align_command.h"

#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <memory>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "cli/align_view.h"
#include "cli/child_process.h"
#include "cli/interrupts.h"
#include "cli/temporary_folder.h"
#include "runtime/base/bytes.h"
#include "runtime/base/status_macros.h"
#include "runtime/engine/align/align_directory.h"

namespace medley {
namespace {

constexpr char kOracleDevice[] = "reference";
constexpr int kLastLines = 5;

// A folder for the files of one run.
class WorkFolder {
 public:
  // `keep` empty: a new one among the temporary files, removed at the end.
  // InvalidArgument: `keep` exists and is not empty.
  static absl::StatusOr<std::unique_ptr<WorkFolder>> Create(const std::string& keep) {
    if (!keep.empty()) {
      std::error_code ignored;
      if (std::filesystem::exists(keep, ignored) && !std::filesystem::is_empty(keep, ignored)) {
        return absl::InvalidArgumentError(absl::StrCat("--keep: ", keep, " is not empty; name a new folder"));
      }
      return std::unique_ptr<WorkFolder>(new WorkFolder(keep, nullptr));
    }
    absl::StatusOr<std::unique_ptr<TemporaryFolder>> made = TemporaryFolder::Create("medley-align");
    if (!made.ok())
      return absl::UnavailableError(absl::StrCat(made.status().message(), "; set TMPDIR or give --keep"));
    const std::string path = (*made)->path();
    return std::unique_ptr<WorkFolder>(new WorkFolder(path, *std::move(made)));
  }
  const std::string& path() const { return path_; }

 private:
  WorkFolder(std::string path, std::unique_ptr<TemporaryFolder> temporary)
      : path_(std::move(path)), temporary_(std::move(temporary)) {}

  const std::string path_;
  const std::unique_ptr<TemporaryFolder> temporary_;  // null: it is kept
};

struct WorkerEnd {
  std::string how;         // "exited with 0"
  std::string last_words;  // one line
};

absl::StatusOr<WorkerEnd> RunWorker(const std::string& name, const std::string& log,
                                    std::vector<std::string> arguments) {
  ASSIGN_OR_RETURN(const std::string program, SiblingProgram("medley-worker"));
  ASSIGN_OR_RETURN(
      ChildProcess worker,
      ChildProcess::Start(
          {.name = name, .program = program, .arguments = std::move(arguments), .log_file = log}));
  const sigset_t signals = Interrupts();
  while (!worker.Ended()) {
    const timespec limit = {.tv_sec = 0, .tv_nsec = 20'000'000};
    if (sigtimedwait(&signals, nullptr, &limit) > 0) return absl::CancelledError("interrupted");
  }
  return WorkerEnd{.how = *worker.Ended(), .last_words = worker.LastWords(kLastLines)};
}

absl::StatusOr<std::vector<std::string>> TwoDevices(const std::string& devices) {
  const std::vector<std::string> names = absl::StrSplit(devices, ',');
  if (names.size() == 2 && !names[0].empty() && !names[1].empty()) return names;
  return absl::InvalidArgumentError(absl::StrCat(
      "--devices: \"", devices, "\", must be two with a comma between, as in cpu:avx2,cpu:avx512"));
}

class AlignRun {
 public:
  AlignRun(const AlignCommand& command, std::vector<std::string> devices, std::string folder)
      : command_(command), devices_(std::move(devices)), directory_(std::move(folder)) {}

  absl::StatusOr<AlignmentReport> Run() {
    RETURN_IF_ERROR(directory_.Create());
    RETURN_IF_ERROR(CheckDevices());
    AlignmentReport report;
    for (const Party party : {Party::kA, Party::kB, Party::kOracle}) {
      ASSIGN_OR_RETURN(report.records[static_cast<int>(party)], Work(party));
    }
    const DeviceRecord &a = report.records[0], &b = report.records[1];
    ASSIGN_OR_RETURN(report.alignment, directory_.Compare(a.computes_in, b.computes_in));
    const size_t steps = std::min(a.losses.size(), b.losses.size());
    ASSIGN_OR_RETURN(report.losses, CompareLosses({a.losses.begin(), a.losses.begin() + steps},
                                                  {b.losses.begin(), b.losses.begin() + steps}, a.computes_in,
                                                  b.computes_in));
    return report;
  }

 private:
  std::string File(const std::string& name) const { return absl::StrCat(directory_.path(), "/", name); }

  absl::Status CheckDevices() const {
    std::vector<std::string> words = {"align-check", "--"};
    words.insert(words.end(), devices_.begin(), devices_.end());
    ASSIGN_OR_RETURN(const WorkerEnd end, RunWorker("align-check", File("check.log"), std::move(words)));
    if (end.how == "exited with 0") return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("--devices: ", absl::StripPrefix(end.last_words, "medley align: ")));
  }

  // What the party's worker left; a worker that died is a device that did not train to the end.
  absl::StatusOr<DeviceRecord> Work(Party party) const {
    const std::string device = party == Party::kOracle ? kOracleDevice : devices_[static_cast<int>(party)];
    std::fprintf(stderr, "%s on %s ...\n",
                 party == Party::kA   ? "training, capturing and replaying"
                 : party == Party::kB ? "training and replaying"
                                      : "replaying",
                 device.c_str());
    std::vector<std::string> words = {"align", absl::StrCat("--party=", NameOf(party)),
                                      absl::StrCat("--device=", device),
                                      absl::StrCat("--directory=", directory_.path())};
    for (const auto& [option, value] : command_.options) words.push_back(absl::StrCat(option, "=", value));
    ASSIGN_OR_RETURN(const WorkerEnd end,
                     RunWorker(device, File(absl::StrCat(NameOf(party), ".log")), std::move(words)));
    absl::StatusOr<DeviceRecord> record = directory_.ReadRecord(party);
    if (absl::IsNotFound(record.status())) {
      const std::string death = absl::StrCat("the worker of ", device, " ", end.how,
                                             end.last_words.empty() ? "" : ": ", end.last_words);
      if (party != Party::kB) return absl::InternalError(death);
      return DeviceRecord{.device = device, .training = absl::UnavailableError(death)};
    }
    RETURN_IF_ERROR(record.status());
    if (record->status.ok()) return record;
    // What the user gave, or a device that is not there, is an input to be mended.
    const std::string what(record->status.message());
    return absl::InvalidArgumentError(absl::StartsWith(what, "--") ? what : absl::StrCat(device, ": ", what));
  }

  const AlignCommand& command_;
  const std::vector<std::string> devices_;  // A, B
  const AlignDirectory directory_;
};

}  // namespace

absl::Status RunAlign(const AlignCommand& command, Output output) {
  BlockInterrupts();  // they wait for RunWorker, so that the folder is removed whatever happens
  ASSIGN_OR_RETURN(std::vector<std::string> devices, TwoDevices(command.devices));
  ASSIGN_OR_RETURN(const std::unique_ptr<WorkFolder> folder, WorkFolder::Create(command.keep));
  ASSIGN_OR_RETURN(const AlignmentReport report, AlignRun(command, std::move(devices), folder->path()).Run());
  const std::string text = output == Output::kJson ? AlignmentJson(report) : FormatAlignment(report);
  std::fputs(text.c_str(), stdout);
  return IsAligned(report) ? absl::OkStatus() : absl::AbortedError(Verdict(report));
}

void AddAlignCommand(CLI::App& app, const Output& output, std::function<absl::Status()>& action) {
  const auto command = std::make_shared<AlignCommand>();
  CLI::App* align = app.add_subcommand("align", "whether two devices compute the same, op by op");
  align->footer(
      "Trains a few steps on device A and captures what the ops read; trains the same steps on B; runs every "
      "captured\n"
      "op on A, on B and on the reference, which sums in f64; then compares all outputs and the losses.\n"
      "Devices: BACKEND[:VARIANT][/CORES], as in cpu:avx512, cpu:avx2/2, opencl, cuda, reference.\n"
      "Exit codes: 0 aligned; 1 they part, or it could not be found out; 2 the command line, the model or a "
      "device is\n"
      "wrong or not there; 130 Ctrl-C.");
  align->add_option("--devices", command->devices, "A,B")->required();
  const auto option = [&](const char* name, const char* what) {
    return align->add_option_function<std::string>(
        name, [command, name](const std::string& value) { command->options[name] = value; }, what);
  };
  option("--model", "folder with config.json and model.safetensors, or job spec (YAML)")->required();
  option("--data", "token file; default: the job's, or made-up tokens");
  option("--steps", "to train; default: 3")->check(CLI::Range(1, 1000));
  option("--precision", "default: the job's, or f32")->check(CLI::IsMember({"f32", "bf16", "f16"}));
  option("--micro-batch", "windows in a micro-batch, of which a step has two; default: 1")
      ->check(CLI::Range(1, 4096));
  option("--sequence", "tokens in a window; default: the job's or the model's, at most 128")
      ->check(CLI::PositiveNumber);
  option("--calls-per-shape", "captured in a step, of one op with one shape; default: 4")
      ->check(CLI::PositiveNumber);
  option("--step-bytes", "captured in a step, as in 512MiB; default: 1GiB")
      ->transform(
          [](const std::string& text) {
            const Bytes bytes = ParseBytes(text);
            if (bytes.value < 1)
              throw CLI::ValidationError("--step-bytes", text + " is no size, as in 512MiB");
            return absl::StrCat(bytes.value);
          },
          "SIZE");
  align->add_option("--keep", command->keep, "new folder where captured ops, results and logs stay");
  align->callback(
      [command, &output, &action] { action = [command, &output] { return RunAlign(*command, output); }; });
}

}  // namespace medley
