#include "runtime/base/files/checkpoint_pace.h"

#include <algorithm>
#include <cstdlib>

#include "absl/strings/numbers.h"
#include "absl/time/clock.h"
#include "runtime/base/clock.h"
#include "runtime/base/progress.h"

namespace medley {

CheckpointPace::CheckpointPace() : start_(Now()) {
  const char* text = std::getenv("MEDLEY_CHECKPOINT_BYTES_PER_SECOND");
  double rate = 0;
  if (text == nullptr || !absl::SimpleAtod(text, &rate) || !(rate > 0)) return;
  bytes_per_second_ = rate;
  // Small enough that something is done several times a second.
  piece_bytes_ = static_cast<int64_t>(std::clamp(rate / 8, 1024.0, static_cast<double>(piece_bytes_)));
}

void CheckpointPace::Passed(int64_t bytes) {
  Progress::OfProcess().Add();
  if (bytes_per_second_ == 0) return;
  passed_bytes_ += static_cast<double>(bytes);
  absl::SleepFor(start_ + absl::Seconds(passed_bytes_ / bytes_per_second_) - Now());
}

}  // namespace medley
