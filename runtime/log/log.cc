#include "runtime/log/log.h"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/base/clock.h"
#include "runtime/base/mutex.h"
#include "runtime/log/request_id.h"

namespace medley {
namespace {

struct State {
  Mutex mutex;
  LogStyle style ABSL_GUARDED_BY(mutex) = LogStyle::kText;
  LogFields context ABSL_GUARDED_BY(mutex);
  LogLimits limits ABSL_GUARDED_BY(mutex);
};

State& OfProcess() {
  static auto& state = *new State;  // threads may log until the very end
  return state;
}

spdlog::level::level_enum SpdlogLevel(LogLevel level) {
  return static_cast<spdlog::level::level_enum>(level);
}

void Write(LogStyle style, LogLevel level, const std::string& text, const LogFields& fields) {
  spdlog::log(SpdlogLevel(level), "{}",
              style == LogStyle::kJson ? JsonMembers(text, fields) : TextLine(text, fields));
}

}  // namespace

void StartLog(LogStyle style, const std::string& from) {
  State& state = OfProcess();
  MutexLock lock(state.mutex);
  state.style = style;
  if (style == LogStyle::kWorker) {
    spdlog::set_default_logger(
        std::make_shared<spdlog::logger>("worker", std::make_shared<spdlog::sinks::stderr_sink_mt>()));
    spdlog::set_pattern("%l: %v");
  } else if (style == LogStyle::kJson) {
    spdlog::set_formatter(std::make_unique<spdlog::pattern_formatter>(
        absl::StrCat(R"({"time":"%Y-%m-%dT%H:%M:%S.%eZ","level":"%l","from":")", from, R"(",%v})"),
        spdlog::pattern_time_type::utc));
  } else {
    spdlog::set_pattern(absl::StrCat("%Y-%m-%d %H:%M:%S.%e %l ", from, ": %v"));
  }
}

void SetLogLevel(LogLevel level) { spdlog::set_level(SpdlogLevel(level)); }

void SetLogContext(const LogFields& fields) {
  State& state = OfProcess();
  MutexLock lock(state.mutex);
  state.context = fields;
}

void EndLog() {
  State& state = OfProcess();
  {
    MutexLock lock(state.mutex);
    for (const std::string& line : state.limits.Rest())
      Write(state.style, LogLevel::kWarning, line, state.context);
  }
  spdlog::default_logger_raw()->flush();
}

void Log(LogLevel level, absl::string_view text, const LogFields& fields, const std::source_location& place) {
  if (!spdlog::should_log(SpdlogLevel(level))) return;
  State& state = OfProcess();
  MutexLock lock(state.mutex);
  LogFields all = Completed(fields, {.request = CurrentRequestId()});
  all = Completed(std::move(all), state.context);
  std::vector<LogLimits::Line> lines = state.limits.Admit({place.file_name(), place.line()}, text, Now());
  for (const LogLimits::Line& line : lines)
    Write(state.style, line.own ? level : LogLevel::kWarning, line.text, line.own ? all : state.context);
}

}  // namespace medley
