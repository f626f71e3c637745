#pragma once
#include <cstdint>

#include "runtime/engine/exec/window_source.h"

namespace medley {

// Windows made up from a seed: ids that count up with a jump now and then, so that there is something to
// learn. The same on every device; those of evaluation are others than those of training. Thread-safe.
class MadeUpWindows final : public WindowSource {
 public:
  MadeUpWindows(uint64_t seed, int vocabulary) : seed_(seed), vocabulary_(vocabulary) {}
  absl::Status Read(Purpose purpose, int64_t step, int index, absl::Span<int32_t> ids) override;

 private:
  const uint64_t seed_;
  const int vocabulary_;
};

}  // namespace medley
