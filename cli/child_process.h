#pragma once
#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace medley {

// Path of `program` in the folder that this program lies in.
// NotFound: there is no such program.
absl::StatusOr<std::string> SiblingProgram(const std::string& program);

// A program that this one started. It ends with this one, even if this one is killed. Movable; one thread.
class ChildProcess {
 public:
  struct Options {
    std::string name;                    // for people
    std::string program;                 // path
    std::vector<std::string> arguments;  // without the program's own
    std::string log_file;                // what it writes is appended here
  };
  // Unavailable: it cannot be started, or the log cannot be opened.
  // To be called from a thread that outlives the child: the child ends with the thread.
  static absl::StatusOr<ChildProcess> Start(const Options& options);

  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&&) = delete;
  // Kills it if it still runs.
  ~ChildProcess();

  const std::string& name() const { return options_.name; }
  // How it ended: "exited with 1", "was killed by signal 15 (Terminated)". Nothing while it runs.
  std::optional<std::string> Ended();
  // The newest lines of its log, at most `lines`.
  std::string LastWords(int lines) const;
  // Asks it to end.
  void Terminate();
  // Waits until it has ended, and kills it at `deadline`.
  void Wait(absl::Time deadline);

 private:
  ChildProcess(Options options, pid_t pid) : options_(std::move(options)), pid_(pid) {}

  Options options_;
  pid_t pid_;            // -1: moved from
  bool killed_ = false;  // by this
  std::optional<std::string> ended_;
};

}  // namespace medley
