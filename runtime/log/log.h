#pragma once
#include <cstdint>
#include <source_location>
#include <string>

#include "absl/strings/string_view.h"
#include "runtime/log/log_line.h"

namespace medley {

// The one way of logging. Thread-safe. A line has a text and fields; its place in the code is limited (LogLimits). Who logs gives no secret:
// no message or configuration as a whole.

enum class LogLevel : uint8_t { kDebug = 1, kInfo, kWarning, kError };  // as v1::LogLevel

enum class LogStyle : uint8_t {
  kText,    // "2026-01-31 12:00:00.000 info agent: text job=gpt", on standard output
  kJson,    // an object on each line, on standard output
  kWorker,  // "info: text job=gpt", on standard error, which the agent reads
};

// Until it is called lines are of kText, from nobody. `from`: "agent".
void StartLog(LogStyle style, const std::string& from = "");

// Lines of lower levels are not written. At the start: kInfo.
void SetLogLevel(LogLevel level);

// What all lines of this process are about, as far as they do not say it themselves.
void SetLogContext(const LogFields& fields);

// Says what was left out and has not been said. To be called before the process ends.
void EndLog();

void Log(LogLevel level, absl::string_view text, const LogFields& fields = {},
         const std::source_location& place = std::source_location::current());

inline void LogDebug(absl::string_view text, const LogFields& fields = {},
                     const std::source_location& place = std::source_location::current()) {
  Log(LogLevel::kDebug, text, fields, place);
}
inline void LogInfo(absl::string_view text, const LogFields& fields = {},
                    const std::source_location& place = std::source_location::current()) {
  Log(LogLevel::kInfo, text, fields, place);
}
inline void LogWarning(absl::string_view text, const LogFields& fields = {},
                       const std::source_location& place = std::source_location::current()) {
  Log(LogLevel::kWarning, text, fields, place);
}
inline void LogError(absl::string_view text, const LogFields& fields = {},
                     const std::source_location& place = std::source_location::current()) {
  Log(LogLevel::kError, text, fields, place);
}

}  // namespace medley
