#include "comm/staging/staging_terms.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"

namespace medley {
namespace {

constexpr char kVersion = 1;
constexpr size_t kEncodedBytes = 8;
constexpr int64_t kGranuleBytes = 4096;  // chunks begin at multiples of it

int64_t RoundUp(int64_t value, int64_t step) { return (value + step - 1) / step * step; }

uint64_t SquareRoot(uint64_t value) {
  // The first guess may be off by the rounding of a processor; the result may not.
  uint64_t root = static_cast<uint64_t>(std::sqrt(static_cast<double>(value)));
  while (root > 0 && root * root > value) --root;
  while ((root + 1) * (root + 1) <= value) ++root;
  return root;
}

}  // namespace

std::string NameOf(Handling handling) {
  switch (handling) {
    case Handling::kHost:
      return "host";
    case Handling::kDirect:
      return "direct";
    case Handling::kStaged:
      return "staged";
    case Handling::kWhole:
      return "whole";
  }
  return "?";
}

std::string NameOf(DeviceMemoryStrategy strategy) {
  switch (strategy) {
    case DeviceMemoryStrategy::kAutomatic:
      return "automatic";
    case DeviceMemoryStrategy::kDirect:
      return "direct";
    case DeviceMemoryStrategy::kStaged:
      return "staged";
    case DeviceMemoryStrategy::kWhole:
      return "whole";
  }
  return "?";
}

absl::StatusOr<Handling> ChooseHandling(const EndMemory& end, DeviceMemoryStrategy asked) {
  if (end.host_reaches) return Handling::kHost;
  switch (asked) {
    case DeviceMemoryStrategy::kDirect:
      if (end.network_reaches) return Handling::kDirect;
      return absl::InvalidArgumentError(
          "communication.device_memory is direct, but the UCX that is loaded does not reach this device's "
          "memory: point "
          "Medley to a UCX that was built for the device, or choose staged or whole, or leave it empty");
    case DeviceMemoryStrategy::kStaged:
      return Handling::kStaged;
    case DeviceMemoryStrategy::kWhole:
      return Handling::kWhole;
    case DeviceMemoryStrategy::kAutomatic:
      break;
  }
  const double copied = std::min(end.copies.to_host.bytes_per_second, end.copies.to_device.bytes_per_second);
  const bool slow = end.direct_bytes_per_second > 0 && end.direct_bytes_per_second < copied;
  return end.network_reaches && !slow ? Handling::kDirect : Handling::kStaged;
}

StagingTerms TermsOf(Handling handling, const CopyCosts& copies) {
  if (handling != Handling::kStaged) return {handling, 0};
  double overhead = 0;
  for (const CopyCost& cost : {copies.to_host, copies.to_device}) {
    overhead = std::max(overhead, cost.latency_seconds * cost.bytes_per_second);
  }
  // A message costs the network something, too, however fast copies begin.
  return {handling,
          static_cast<uint32_t>(std::clamp<double>(overhead, kSmallestChunkBytes, kLargestChunkBytes))};
}

std::string EncodeTerms(const StagingTerms& terms) {
  std::string bytes(kEncodedBytes, 0);
  bytes[0] = kVersion;
  bytes[1] = static_cast<char>(terms.handling);
  for (int i = 0; i < 4; ++i) bytes[4 + i] = static_cast<char>(terms.chunk_overhead_bytes >> (8 * i));
  return bytes;
}

absl::StatusOr<StagingTerms> DecodeTerms(const std::string& bytes) {
  const auto refuse = [](const char* field, uint64_t value, const std::string& allowed) {
    return absl::InvalidArgumentError(
        absl::StrCat("staging terms: ", field, " is ", value, ", must be ", allowed));
  };
  if (bytes.size() != kEncodedBytes) return refuse("size", bytes.size(), absl::StrCat(kEncodedBytes));
  const auto byte = [&](int i) { return static_cast<uint8_t>(bytes[i]); };
  if (byte(0) != kVersion) return refuse("version", byte(0), absl::StrCat(static_cast<int>(kVersion)));
  if (byte(1) > static_cast<uint8_t>(Handling::kWhole)) return refuse("handling", byte(1), "0 to 3");
  if (byte(2) != 0 || byte(3) != 0) return refuse("reserved", byte(2) + 256u * byte(3), "0");
  StagingTerms terms{static_cast<Handling>(byte(1)), 0};
  for (int i = 0; i < 4; ++i) terms.chunk_overhead_bytes |= static_cast<uint32_t>(byte(4 + i)) << (8 * i);
  const bool staged = terms.handling == Handling::kStaged;
  const uint32_t least = staged ? kSmallestChunkBytes : 0, most = staged ? kLargestChunkBytes : 0;
  if (terms.chunk_overhead_bytes < least || terms.chunk_overhead_bytes > most) {
    return refuse("chunk_overhead_bytes", terms.chunk_overhead_bytes, absl::StrCat(least, " to ", most));
  }
  return terms;
}

int64_t WireChunkBytes(int64_t bytes, const StagingTerms& one, const StagingTerms& other) {
  const bool chunked = one.handling == Handling::kStaged || other.handling == Handling::kStaged;
  if (!chunked) return bytes;
  const uint64_t overhead = std::max(one.chunk_overhead_bytes, other.chunk_overhead_bytes);
  // Beyond this many bytes the chunk is the largest anyway; the product then stays in 64 bits.
  const uint64_t counted = static_cast<uint64_t>(std::min<int64_t>(bytes, int64_t{1} << 40));
  const int64_t ideal = static_cast<int64_t>(SquareRoot(counted * overhead));
  const int64_t longest =
      std::clamp(RoundUp(ideal, kSmallestChunkBytes), kSmallestChunkBytes, kLargestChunkBytes);
  if (bytes <= longest) return bytes;
  // Even chunks: a short last one would keep the others waiting for a copy as long as theirs.
  const int64_t chunks = (bytes - 1) / longest + 1;
  return RoundUp((bytes - 1) / chunks + 1, kGranuleBytes);
}

}  // namespace medley
