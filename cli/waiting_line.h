#pragma once
#include <cstdint>
#include <string>

#include "absl/time/time.h"

namespace medley {

// "measuring ... 12 s" on standard error while a call lasts longer than a second; nothing if that is no
// terminal. Gone at the end. Tick from one thread.
class WaitingLine {
 public:
  explicit WaitingLine(const std::string& what);
  ~WaitingLine();
  // Redraws it once a second.
  void Tick();

 private:
  const std::string what_;
  const bool terminal_;
  const absl::Time begin_;
  int64_t shown_seconds_ = 0;
};

}  // namespace medley
