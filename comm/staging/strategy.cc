#include "comm/staging/strategy.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/base/bytes.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

constexpr int kDeepestRing = 4;

// What one end adds: before or after the transfer of the whole, or beside that of chunks.
struct Stage {
  double whole_seconds = 0;
  CopyCost chunks;  // latency 0 and very fast: nothing is copied
  double direct_bytes_per_second = 0;
};

Stage StageOf(Handling handling, const EndMemory& end, const CopyCost& copy, double bytes) {
  switch (handling) {
    case Handling::kHost:
      return {};
    case Handling::kDirect:
      return {.direct_bytes_per_second = end.direct_bytes_per_second};
    case Handling::kStaged:
      return {.chunks = copy};
    case Handling::kWhole:
      return {.whole_seconds = copy.Seconds(bytes)};
  }
  return {};
}

StagingTerms TermsFor(Handling handling, const EndMemory& end) { return TermsOf(handling, end.copies); }

Handling HandledAs(const EndMemory& end, DeviceMemoryStrategy strategy) {
  const absl::StatusOr<Handling> handling = ChooseHandling(end, strategy);
  return handling.ok() ? *handling : Handling::kDirect;  // impossible, but what it would take can be said
}

std::string Seconds(double seconds) {
  if (seconds < 1e-3) return absl::StrFormat("%.1f us", seconds * 1e6);
  return seconds < 1 ? absl::StrFormat("%.2f ms", seconds * 1e3) : absl::StrFormat("%.2f s", seconds);
}

std::string ReasonFor(const StrategyQuestion& question, const StrategyChoice& choice) {
  const auto is = [&](Handling handling) {
    return choice.source == handling || choice.destination == handling;
  };
  if (choice.source == Handling::kHost && choice.destination == Handling::kHost)
    return "the host reaches both memories";
  if (question.asked != DeviceMemoryStrategy::kAutomatic) {
    return absl::StrCat("communication.device_memory is ", NameOf(question.asked));
  }
  if (!is(Handling::kStaged)) return "the network reaches the devices' memory";
  const auto slow = [](const EndMemory& end) { return !end.host_reaches && end.network_reaches; };
  std::string reason = slow(question.source) || slow(question.destination)
                           ? "the network reads the device's memory slower than it is copied"
                           : "the network does not reach the device's memory";
  if (choice.chunks == 1) absl::StrAppend(&reason, "; too short to gain from chunks");
  return reason;
}

}  // namespace

int RingDepth(int64_t chunks) { return static_cast<int>(std::clamp<int64_t>(chunks, 1, kDeepestRing)); }

double PredictSeconds(const StrategyQuestion& question, Handling source, Handling destination) {
  const double bytes = static_cast<double>(question.bytes);
  const Stage out = StageOf(source, question.source, question.source.copies.to_host, bytes);
  const Stage in = StageOf(destination, question.destination, question.destination.copies.to_device, bytes);
  const StagingTerms terms[] = {TermsFor(source, question.source),
                                TermsFor(destination, question.destination)};
  const int64_t chunk = WireChunkBytes(question.bytes, terms[0], terms[1]);
  const int64_t chunks = chunk > 0 ? (question.bytes + chunk - 1) / chunk : 1;
  const double piece = static_cast<double>(chunk);

  // A network that reads a device's memory slower than the link's bytes travel is what takes the time.
  double transfer = question.link.Seconds(bytes);
  for (const Stage& stage : {out, in}) {
    if (stage.direct_bytes_per_second <= 0) continue;
    transfer = std::max(transfer, question.link.LatencySeconds() + bytes / stage.direct_bytes_per_second);
  }
  const double first_out = out.chunks.Seconds(piece), last_in = in.chunks.Seconds(piece);
  // Chunks follow each other over the link without waiting for the one before; copies of one lane do not.
  const double per_chunk = transfer / static_cast<double>(chunks);
  const double line = transfer + static_cast<double>(chunks - 1) *
                                     std::max({0.0, first_out - per_chunk, last_in - per_chunk});
  return out.whole_seconds + first_out + line + last_in + in.whole_seconds;
}

absl::StatusOr<StrategyChoice> ChooseStrategy(const StrategyQuestion& question) {
  StrategyChoice choice;
  const auto choose = [&](const EndMemory& end, const char* name) -> absl::StatusOr<Handling> {
    const absl::StatusOr<Handling> handling = ChooseHandling(end, question.asked);
    return handling.ok() ? handling : Annotate(handling.status(), name);
  };
  ASSIGN_OR_RETURN(choice.source, choose(question.source, "the sender"));
  ASSIGN_OR_RETURN(choice.destination, choose(question.destination, "the receiver"));
  choice.chunk_bytes = WireChunkBytes(question.bytes, TermsFor(choice.source, question.source),
                                      TermsFor(choice.destination, question.destination));
  if (choice.chunk_bytes > 0) choice.chunks = (question.bytes + choice.chunk_bytes - 1) / choice.chunk_bytes;
  choice.depth = RingDepth(choice.chunks);
  choice.seconds = PredictSeconds(question, choice.source, choice.destination);
  choice.reason = ReasonFor(question, choice);
  if (question.source.host_reaches && question.destination.host_reaches) return choice;
  for (const DeviceMemoryStrategy strategy :
       {DeviceMemoryStrategy::kDirect, DeviceMemoryStrategy::kStaged, DeviceMemoryStrategy::kWhole}) {
    StrategyCandidate candidate{.strategy = strategy};
    for (const auto& [end, name] :
         {std::pair{&question.source, "sender"}, std::pair{&question.destination, "receiver"}}) {
      if (candidate.objection.empty() && !ChooseHandling(*end, strategy).ok()) {
        candidate.objection = absl::StrCat("the network does not reach the ", name, "'s memory");
      }
    }
    candidate.seconds = PredictSeconds(question, HandledAs(question.source, strategy),
                                       HandledAs(question.destination, strategy));
    choice.candidates.push_back(std::move(candidate));
  }
  return choice;
}

std::string Explain(const StrategyQuestion& question, const StrategyChoice& choice) {
  std::string text = absl::StrCat(FormatBytes({question.bytes}), ": ", NameOf(choice.source), " to ",
                                  NameOf(choice.destination));
  if (choice.chunks > 1) {
    absl::StrAppend(&text, ", ", choice.chunks, " chunks of ", FormatBytes({choice.chunk_bytes}),
                    ", ring of ", choice.depth);
  }
  absl::StrAppend(&text, ", ", Seconds(choice.seconds), ": ", choice.reason, "\n");
  for (const StrategyCandidate& candidate : choice.candidates) {
    absl::StrAppend(&text, "  ", NameOf(candidate.strategy), " ",
                    candidate.objection.empty() ? Seconds(candidate.seconds) : candidate.objection, "\n");
  }
  return text;
}

absl::StatusOr<LinkModel> LinkBetweenMemories(StrategyQuestion question) {
  LinkModel model;
  // Four to an octave of sizes at which chunking changes would be exact to the percent; two are to a few.
  for (int64_t bytes = 4 << 10; bytes <= int64_t{1} << 30; bytes *= 2) {
    for (const int64_t size : {bytes, bytes + bytes / 2}) {
      question.bytes = size;
      ASSIGN_OR_RETURN(const StrategyChoice choice, ChooseStrategy(question));
      const double least = model.points.empty() ? 0 : model.points.back().seconds;
      model.points.push_back({static_cast<double>(size), std::max(least, choice.seconds)});
    }
  }
  return model;
}

}  // namespace medley
