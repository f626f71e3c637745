#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/transport/transport.h"

namespace medley {

class Mailboxes;

// All ranks of an attempt inside one process, for tests and for plans of a single worker. A send copies its
// bytes and is done at once; a receive waits for the message. Holds Transport's contract, conformance suite
// included. Reaches kHost only, and has nothing to register.
//
// Thread-safe. Must outlive the transports that Join returned.
class LoopbackFabric {
 public:
  // `size` in [1, 65536]; anything else stops the process.
  explicit LoopbackFabric(int size);
  ~LoopbackFabric();
  LoopbackFabric(const LoopbackFabric&) = delete;
  LoopbackFabric& operator=(const LoopbackFabric&) = delete;

  // The transport of `rank`, which must be in [0, size) and have no other transport alive; else the process
  // stops. Messages to `rank` that nobody received are still there. Destroying the transport tells the peers
  // nothing. With `peers` it exchanges messages with those ranks alone; one that cannot be stops the process.
  std::unique_ptr<Transport> Join(int rank, const std::optional<std::vector<int>>& peers = {});

  // From now on the peers of `rank` get Unavailable with `why`, as after a crash that they all have noticed;
  // what it sent before can still be received. Transport::MarkGone tells one of them alone.
  void MarkGone(int rank, const std::string& why = "it crashed");

 private:
  const std::unique_ptr<Mailboxes> mailboxes_;
};

}  // namespace medley
