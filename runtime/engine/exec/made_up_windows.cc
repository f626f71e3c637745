#include "runtime/engine/exec/made_up_windows.h"

#include <random>

namespace medley {

absl::Status MadeUpWindows::Read(Purpose purpose, int64_t step, int index, absl::Span<int32_t> ids) {
  const uint64_t stream =
      seed_ * 1000003 + step * 1009 + index + (purpose == Purpose::kEvaluate ? 7777777 : 0);
  std::mt19937_64 random(stream);
  int32_t id = static_cast<int32_t>(random() % vocabulary_);
  for (int32_t& out : ids) {
    out = id;
    id = static_cast<int32_t>((id + (random() % 4 == 0 ? random() % vocabulary_ : 1)) % vocabulary_);
  }
  return absl::OkStatus();
}

}  // namespace medley
