#include "runtime/log/log_line.h"

#include <algorithm>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace medley {
namespace {

constexpr size_t kShownOfLine = 100;

std::string Quoted(absl::string_view text) {
  // What is no UTF-8 must not end the program.
  return nlohmann::json(std::string(text)).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

bool IsPlain(absl::string_view value) {
  return !value.empty() && std::all_of(value.begin(), value.end(), [](char c) {
    return absl::ascii_isgraph(static_cast<unsigned char>(c)) && c != '"' && c != '=' && c != '\\';
  });
}

// Others' texts must not look like lines of their own.
std::string OnOneLine(absl::string_view text) {
  std::string line;
  for (const char c : text) {
    if (c == '\n' || c == '\r') {
      line += c == '\n' ? "\\n" : "\\r";
    } else {
      line += c;
    }
  }
  return line;
}

std::string LeftOut(int64_t lines, absl::string_view like) {
  return absl::StrCat(lines, lines == 1 ? " line like " : " lines like ", like, lines == 1 ? " was" : " were",
                      " left out");
}

std::string LeftOutElsewhere(int64_t lines, const std::string& last) {
  const bool is_long = last.size() > kShownOfLine;
  return LeftOut(lines, absl::StrCat("\"", last.substr(0, kShownOfLine), is_long ? "..." : "", "\""));
}

}  // namespace

LogFields Completed(LogFields fields, const LogFields& others) {
  if (fields.job.empty()) fields.job = others.job;
  if (fields.attempt == 0) fields.attempt = others.attempt;
  if (fields.rank < 0) fields.rank = others.rank;
  if (fields.node.empty()) fields.node = others.node;
  if (fields.request.empty()) fields.request = others.request;
  return fields;
}

std::string TextLine(absl::string_view text, const LogFields& fields) {
  std::string line = OnOneLine(text);
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) absl::StrAppend(&line, " ", name, "=", IsPlain(value) ? value : Quoted(value));
  };
  add("job", fields.job);
  add("attempt", fields.attempt == 0 ? "" : absl::StrCat(fields.attempt));
  add("rank", fields.rank < 0 ? "" : absl::StrCat(fields.rank));
  add("node", fields.node);
  add("request", fields.request);
  return line;
}

std::string JsonMembers(absl::string_view text, const LogFields& fields) {
  std::string members = absl::StrCat("\"message\":", Quoted(text));
  const auto add = [&](const char* name, const std::string& json) {
    absl::StrAppend(&members, ",\"", name, "\":", json);
  };
  if (!fields.job.empty()) add("job", Quoted(fields.job));
  if (fields.attempt != 0) add("attempt", absl::StrCat(fields.attempt));
  if (fields.rank >= 0) add("rank", absl::StrCat(fields.rank));
  if (!fields.node.empty()) add("node", Quoted(fields.node));
  if (!fields.request.empty()) add("request", Quoted(fields.request));
  return members;
}

std::vector<LogLimits::Line> LogLimits::Admit(const Place& place, absl::string_view text, absl::Time now) {
  std::vector<Line> lines;
  for (auto& [other, said] : places_) {
    if (other == place || said.limit.left_out() == 0 || !said.limit.HasRoom(now)) continue;
    if (const std::optional<int64_t> left_out = said.limit.Admit(now))
      lines.push_back({.text = LeftOutElsewhere(*left_out, said.last), .own = false});
  }
  Lines& own = places_[place];
  const std::optional<int64_t> left_out = own.limit.Admit(now);
  if (!left_out) {
    own.last = std::string(text);
  } else {
    lines.push_back({.text = *left_out == 0 ? std::string(text)
                                            : absl::StrCat(text, " (", LeftOut(*left_out, "this"), ")")});
  }
  return lines;
}

std::vector<std::string> LogLimits::Rest() {
  std::vector<std::string> lines;
  for (auto& [place, said] : places_) {
    if (said.limit.left_out() > 0) lines.push_back(LeftOutElsewhere(said.limit.TakeLeftOut(), said.last));
  }
  return lines;
}

}  // namespace medley
