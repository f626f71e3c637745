#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/ir/job/data_choice.h"

// Which part of a token file each sequence of each step is. A function of the job alone: no plan, device or
// process enters it. Pure: no file, clock or thread. README.md repeats the definitions as a Python program.
//
// Window w of a file with sequences of S tokens covers the tokens [w * S, w * S + S]: the first S are the
// inputs, the last S the targets. Steps count from 0.
namespace medley {

std::string NameOf(DataOrder order);  // "sequential", "shuffled"
// Nothing if `name` is neither.
std::optional<DataOrder> ParseDataOrder(const std::string& name);

// floor((tokens - 1) / sequence); 0 if there are too few tokens for one. sequence >= 1.
int64_t WindowCount(int64_t tokens, int sequence);

// Window `index` of validation batch `batch`: (batch * global_batch_sequences + index) mod windows.
// All >= 0, windows and global_batch_sequences >= 1.
int64_t ValidationWindow(int64_t windows, int global_batch_sequences, int64_t batch, int index);

// The permutation of [0, windows) that epoch `epoch` of a shuffled job reads in. windows < 2^32. A long one
// is made with signs of progress (runtime/base/progress.h).
std::vector<uint32_t> EpochPermutation(int64_t windows, uint64_t seed, int64_t epoch);

struct WindowOrderOptions {
  int64_t tokens = 0;              // in the training file
  int sequence = 0;                // tokens in one window
  int global_batch_sequences = 0;  // windows in one step
  DataOrder order = DataOrder::kSequential;
  uint64_t seed = 0;  // of kShuffled
};

// The training windows of a job. An epoch is floor(windows / global_batch_sequences) steps; the windows left
// over are not read in that epoch. Copyable; one thread at a time.
class WindowOrder {
 public:
  // InvalidArgument: sequence or global batch < 1; the file holds fewer windows than one global batch;
  // 2^32 windows or more to shuffle.
  static absl::StatusOr<WindowOrder> Create(const WindowOrderOptions& options);

  int64_t windows() const { return windows_; }
  int64_t steps_per_epoch() const { return steps_per_epoch_; }

  // The window that sequence `index` (0 <= index < global_batch_sequences) of step `step` (>= 0) is. Depends
  // on its arguments and the options alone; steps may be asked for in any order. Fast within an epoch; the
  // first call in another epoch of a shuffled order takes O(windows) time and keeps 4 bytes a window.
  int64_t WindowOf(int64_t step, int index);

 private:
  WindowOrder(const WindowOrderOptions& options, int64_t windows)
      : options_(options), windows_(windows), steps_per_epoch_(windows / options.global_batch_sequences) {}

  WindowOrderOptions options_;
  int64_t windows_;
  int64_t steps_per_epoch_;
  int64_t permuted_epoch_ = -1;
  std::vector<uint32_t> permutation_;  // of permuted_epoch_
};

}  // namespace medley
