#pragma once
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "comm/transport/transport.h"

namespace medley {

// Whether all members of a group have done something, as each learns while it waits: that one has failed goes from
// neighbour to neighbour of ScalarTree (runtime/ir/collective) at once, that all have succeeded up the tree and down
// again. One word a neighbour, each way.
class JoinOutcome {
 public:
  // Listens. `members`: ranks, ascending; `place`: of this rank among them. All make one, with the same members and tag.
  JoinOutcome(Transport& transport, absl::Span<const int> members, int place, MessageTag tag);

  // How it went with this member; once.
  void Decide(bool succeeded) { own_ = succeeded; }
  // Hears and tells what there is. Does not block. Errors: of the transport.
  absl::Status Look();
  // Some member has failed, as far as is known.
  bool has_failed() const { return has_failed_; }
  // Nothing is left to hear or to tell: has_failed() is the same at all members.
  bool is_over() const;

 private:
  enum class Way { kUp, kDown, kBeside };  // to who gathers, to who is gathered, to who exchanges
  struct Neighbour {
    int rank = 0;
    Way way = Way::kBeside;
    std::byte heard{}, told{};
    std::optional<bool> word;                 // heard
    std::unique_ptr<Transfer> receive, send;  // before the bytes go
  };
  void Listen(int rank, Way way);
  bool AllSucceeded(Way way) const;
  absl::Status Tell(Way way, bool succeeded);

  Transport& transport_;
  const MessageTag tag_;
  absl::Status listening_;
  std::optional<bool> own_;
  bool has_failed_ = false;
  std::vector<std::unique_ptr<Neighbour>> neighbours_;
};

}  // namespace medley
