#include "agent/worker/memory_link.h"

#include <cmath>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "comm/staging/strategy.h"
#include "runtime/base/bytes.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

constexpr char kFirst[] = "memory";
constexpr int64_t kExplainedBytes[] = {64 << 10, 1 << 20, 16 << 20};

}  // namespace

std::string EncodeMemory(const EndMemory& memory) {
  const CopyCosts& copies = memory.copies;
  return absl::StrFormat("%s %d %d %.17g %.17g %.17g %.17g", kFirst, memory.host_reaches,
                         memory.network_reaches, copies.to_host.latency_seconds,
                         copies.to_host.bytes_per_second, copies.to_device.latency_seconds,
                         copies.to_device.bytes_per_second);
}

absl::StatusOr<EndMemory> DecodeMemory(const std::string& text) {
  const std::vector<std::string> words = absl::StrSplit(text, ' ');
  std::vector<double> numbers(words.empty() ? 0 : words.size() - 1);
  bool good = words.size() == 7 && words[0] == kFirst;
  for (size_t i = 0; good && i < numbers.size(); ++i) {
    good = absl::SimpleAtod(words[i + 1], &numbers[i]) && std::isfinite(numbers[i]) && numbers[i] >= 0;
  }
  good = good && numbers[0] <= 1 && numbers[1] <= 1 && numbers[3] > 0 && numbers[5] > 0;
  if (!good) return absl::InvalidArgumentError("the peer's description of its memory makes no sense");
  EndMemory memory{.host_reaches = numbers[0] != 0, .network_reaches = numbers[1] != 0};
  memory.copies.to_host = {numbers[2], numbers[3]};
  memory.copies.to_device = {numbers[4], numbers[5]};
  return memory;
}

absl::StatusOr<MemoryLink> LinkOf(const EndMemory& one, const EndMemory& other,
                                  const LinkModel& between_hosts) {
  if (one.host_reaches && other.host_reaches) return MemoryLink{between_hosts, ""};
  StrategyQuestion there{.source = one, .destination = other, .link = between_hosts};
  StrategyQuestion back{.source = other, .destination = one, .link = between_hosts};
  MemoryLink result;
  ASSIGN_OR_RETURN(result.transfer, LinkBetweenMemories(there));
  ASSIGN_OR_RETURN(LinkModel returning, LinkBetweenMemories(back));
  const double typical_bytes = 4 << 20;
  if (returning.Seconds(typical_bytes) > result.transfer.Seconds(typical_bytes))
    result.transfer = std::move(returning);
  for (const int64_t bytes : kExplainedBytes) {
    there.bytes = bytes;
    ASSIGN_OR_RETURN(const StrategyChoice choice, ChooseStrategy(there));
    absl::StrAppend(&result.explanation, result.explanation.empty() ? "" : "; ", FormatBytes({bytes}), ": ",
                    NameOf(choice.source), " to ", NameOf(choice.destination), " in ", choice.chunks,
                    choice.chunks == 1 ? " piece" : " pieces");
    if (bytes == kExplainedBytes[0]) absl::StrAppend(&result.explanation, " (", choice.reason, ")");
  }
  return result;
}

}  // namespace medley
