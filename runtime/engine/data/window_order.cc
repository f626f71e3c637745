#include "runtime/engine/data/window_order.h"

#include <limits>
#include <numeric>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/counted.h"
#include "runtime/base/progress.h"
#include "runtime/base/split_mix64.h"

namespace medley {
namespace {

// Swaps between two signs of progress: billions of windows take minutes.
constexpr uint64_t kSwapsASign = uint64_t{1} << 20;

// floor(random * bound / 2^64): uniform on [0, bound) up to bound / 2^64, without a retry that another
// program would have to copy.
uint64_t Below(uint64_t bound, uint64_t random) {
  return static_cast<uint64_t>((static_cast<unsigned __int128>(random) * bound) >> 64);
}

absl::Status AtLeastOne(const std::string& field, int value) {
  if (value >= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(field, " is ", value, ", must be at least 1"));
}

}  // namespace

std::string NameOf(DataOrder order) {
  switch (order) {
    case DataOrder::kSequential:
      return "sequential";
    case DataOrder::kShuffled:
      return "shuffled";
  }
  return "?";
}

std::optional<DataOrder> ParseDataOrder(const std::string& name) {
  for (const DataOrder order : {DataOrder::kSequential, DataOrder::kShuffled}) {
    if (NameOf(order) == name) return order;
  }
  return std::nullopt;
}

int64_t WindowCount(int64_t tokens, int sequence) { return tokens < 1 ? 0 : (tokens - 1) / sequence; }

int64_t ValidationWindow(int64_t windows, int global_batch_sequences, int64_t batch, int index) {
  return (batch * global_batch_sequences + index) % windows;
}

std::vector<uint32_t> EpochPermutation(int64_t windows, uint64_t seed, int64_t epoch) {
  std::vector<uint32_t> permutation(static_cast<size_t>(windows));
  std::iota(permutation.begin(), permutation.end(), 0u);
  uint64_t state = SplitMix64(SplitMix64(seed) + static_cast<uint64_t>(epoch));
  for (uint64_t last = permutation.size(); last-- > 1;) {
    const uint64_t random = SplitMix64(state);
    state += kSplitMix64Increment;
    std::swap(permutation[last], permutation[Below(last + 1, random)]);
    if (last % kSwapsASign == 0) Progress::OfProcess().Add();
  }
  return permutation;
}

absl::StatusOr<WindowOrder> WindowOrder::Create(const WindowOrderOptions& options) {
  if (absl::Status status = AtLeastOne("sequence", options.sequence); !status.ok()) return status;
  if (absl::Status status = AtLeastOne("global_batch_sequences", options.global_batch_sequences);
      !status.ok()) {
    return status;
  }
  const int64_t windows = WindowCount(options.tokens, options.sequence);
  if (windows < options.global_batch_sequences) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the training data has ", Counted(options.tokens, "token"), ", which is ", Counted(windows, "window"),
        " of ", options.sequence, "; one step takes ", Counted(options.global_batch_sequences, "window"),
        " (", int64_t{options.global_batch_sequences} * options.sequence + 1, " tokens)"));
  }
  if (options.order == DataOrder::kShuffled && windows > std::numeric_limits<uint32_t>::max()) {
    return absl::InvalidArgumentError(absl::StrCat(windows, " windows cannot be shuffled, at most ",
                                                   std::numeric_limits<uint32_t>::max(), " can"));
  }
  return WindowOrder(options, windows);
}

int64_t WindowOrder::WindowOf(int64_t step, int index) {
  const int64_t epoch = step / steps_per_epoch_;
  const int64_t place = (step % steps_per_epoch_) * options_.global_batch_sequences + index;
  if (options_.order == DataOrder::kSequential) return place;
  if (epoch != permuted_epoch_) {
    permutation_ = EpochPermutation(windows_, options_.seed, epoch);
    permuted_epoch_ = epoch;
  }
  return permutation_[static_cast<size_t>(place)];
}

}  // namespace medley
