#pragma once
#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "comm/ucx/ucx_transport.h"

namespace medley {

// Two ranks in two processes, for tests and measurements: this one is rank 0, and rank 1 is the program
// ucx_peer beside this one's executable.
class PeerProcess {
 public:
  enum class Task {
    kEcho,    // sends back every message of kProbe until an empty one, then closes
    kFollow,  // MeasureLink as follower, then closes
    kStall,   // connects, then does nothing until killed
  };
  // Starts the peer, and connects to it. Unavailable: it cannot be started, or ended before.
  static absl::StatusOr<std::unique_ptr<PeerProcess>> Start(UcxTransport::Links links, Task task);
  // Kills it, if it has not ended.
  ~PeerProcess();

  UcxTransport& transport() { return *transport_; }
  void Kill();
  // Waits for the end of the process. Returns its exit status, or 128 + the signal.
  int AwaitExit();

  // The peer's side: the rest of the program, given the program's arguments. Returns its exit status.
  static int RunPeer(const std::vector<std::string>& arguments);

 private:
  PeerProcess() = default;

  pid_t process_ = -1;
  int descriptor_ = -1;
  std::unique_ptr<UcxTransport> transport_;
};

}  // namespace medley
