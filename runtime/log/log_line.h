#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "runtime/log/rate_limit.h"

namespace medley {

// What a line is about, beside its text. These, and nothing else: no message or configuration, which may have secrets, becomes a field.
struct LogFields {
  std::string job;       // its id
  uint32_t attempt = 0;  // of the job, from 1; 0: none
  int rank = -1;         // of the attempt; -1: none
  std::string node;      // its name
  std::string request;   // its id; empty: that which the thread serves
};

// The fields of `fields`, and of `others` those that it leaves open.
LogFields Completed(LogFields fields, const LogFields& others);

// `text`, and behind it the fields: "running job=gpt attempt=1". One line, whatever is in them.
std::string TextLine(absl::string_view text, const LogFields& fields);

// The same as members of a JSON object, without its braces: "message":"running","job":"gpt","attempt":1
std::string JsonMembers(absl::string_view text, const LogFields& fields);

// Which lines are written: of each place in the code 20 at once, and then one a second. Not thread-safe.
class LogLimits {
 public:
  using Place = std::pair<std::string, uint32_t>;  // file and line
  struct Line {
    std::string text;
    bool own = true;  // false: of what was left out elsewhere
  };

  // What is to be written of a line: nothing, or it, and in it how many like it were left out before. Before it in the list: how many were
  // left out elsewhere, where that has not been said for a second.
  std::vector<Line> Admit(const Place& place, absl::string_view text, absl::Time now);

  // What was left out and has not been said.
  std::vector<std::string> Rest();

  static constexpr int kAtOnce = 20;
  static constexpr double kPerSecond = 1;

 private:
  struct Lines {
    RateLimit limit{kAtOnce, kPerSecond};
    std::string last;  // that was left out
  };
  std::map<Place, Lines> places_;
};

}  // namespace medley
