#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "comm/staging/staging_terms.h"
#include "runtime/ir/link/link_model.h"

// Which way a message between two devices' memories takes, and how long. Pure.
namespace medley {

struct StrategyQuestion {
  EndMemory source, destination;
  LinkModel link;  // between memories of the two hosts
  int64_t bytes = 0;
  DeviceMemoryStrategy asked = DeviceMemoryStrategy::kAutomatic;
};

// What it would be if both ends were handled alike.
struct StrategyCandidate {
  DeviceMemoryStrategy strategy = DeviceMemoryStrategy::kStaged;
  double seconds = 0;
  std::string objection;  // why it cannot be; empty: it can
};

struct StrategyChoice {
  Handling source = Handling::kHost, destination = Handling::kHost;
  int64_t chunk_bytes = 0;  // as the message goes over the wire; all of it: in one
  int64_t chunks = 1;
  int depth = 1;  // slots of a staged end's ring
  double seconds = 0;
  std::vector<StrategyCandidate> candidates;  // direct, staged, whole; empty between two hosts' memories
  std::string reason;
};

// InvalidArgument: what is asked for is impossible, see ChooseHandling; names the end.
absl::StatusOr<StrategyChoice> ChooseStrategy(const StrategyQuestion& question);

// A line on what is done and why, then one for each candidate.
std::string Explain(const StrategyQuestion& question, const StrategyChoice& choice);

// What such a message takes with the ends handled as given, chunked as WireChunkBytes has it.
double PredictSeconds(const StrategyQuestion& question, Handling source, Handling destination);

// `question.link` as it is between the two memories: what the link takes, with copies, for messages of any
// size. `question.bytes` is not looked at. InvalidArgument as ChooseStrategy.
absl::StatusOr<LinkModel> LinkBetweenMemories(StrategyQuestion question);

// Slots that a ring needs for `chunks` chunks: two more than are at work keep a late one from stopping the
// others.
int RingDepth(int64_t chunks);

}  // namespace medley
