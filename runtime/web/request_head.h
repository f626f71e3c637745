#pragma once
#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace medley {

// The head of a request of HTTP/1.1, up to its blank line, as it comes: where it ends, and whether it is too large. What it says is for
// others to read. Not thread-safe.
class RequestHead {
 public:
  static constexpr size_t kMostLineBytes = size_t{8} << 10;  // of the request line, and of each header
  static constexpr size_t kMostBytes = size_t{32} << 10;     // of all of it
  static constexpr int kMostHeaders = 100;

  enum class State { kIncomplete, kComplete, kRefused };

  // Takes the bytes that come next, up to the head's end. Returns how many: all of them unless it is complete or refused.
  size_t Take(absl::string_view bytes);

  State state() const { return state_; }
  // Of a refused one: 414 or 431, and what is too large, with its limit.
  int status() const { return status_; }
  const std::string& why() const { return why_; }

 private:
  void TakeByte(char byte);
  void Refuse(int status, std::string why);

  State state_ = State::kIncomplete;
  size_t bytes_ = 0, line_bytes_ = 0;
  int lines_ = 0;
  char last_ = 0;
  int status_ = 0;
  std::string why_;
};

// A whole head without what asks for parts of an answer (Range), which may be left aside: httplib makes as many as are asked for, each as
// large as the whole.
std::string WithoutRange(absl::string_view head);

}  // namespace medley
