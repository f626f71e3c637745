#include "coordinator/cli/text_table.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace medley {
namespace {

bool ContinuesLetter(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

bool IsNumeric(const std::string& cell) {
  return !cell.empty() && (absl::ascii_isdigit(cell[0]) || cell == "-") &&
         cell.find('/') == std::string::npos && cell.find(':') == std::string::npos;
}

}  // namespace

std::string Printable(const std::string& text) {
  std::string shown;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n' || c == '\t') {
      shown += ' ';
    } else if (byte < 0x20 || byte == 0x7F) {
      absl::StrAppend(&shown, absl::StrFormat("\\x%02x", byte));
    } else {
      shown += c;
    }
  }
  return shown;
}

size_t DisplayWidth(const std::string& text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return !ContinuesLetter(c); }));
}

std::string CutToWidth(const std::string& text, size_t columns) {
  if (DisplayWidth(text) <= columns) return text;
  if (columns == 0) return "";
  size_t width = 0, end = 0;
  while (end < text.size()) {
    if (!ContinuesLetter(text[end]) && ++width == columns) break;
    ++end;
  }
  return text.substr(0, end) + "…";
}

std::string FormatTable(const std::vector<std::vector<std::string>>& rows) {
  if (rows.empty()) return "";
  std::vector<size_t> widths(rows[0].size(), 0);
  std::vector<bool> numeric(rows[0].size(), rows.size() > 1);
  for (size_t r = 0; r < rows.size(); ++r) {
    for (size_t c = 0; c < rows[r].size() && c < widths.size(); ++c) {
      widths[c] = std::max(widths[c], DisplayWidth(rows[r][c]));
      if (r > 0 && !IsNumeric(rows[r][c])) numeric[c] = false;
    }
  }
  std::string text;
  for (const std::vector<std::string>& row : rows) {
    std::string line;
    for (size_t c = 0; c < row.size() && c < widths.size(); ++c) {
      const std::string padding(widths[c] - DisplayWidth(row[c]), ' ');
      absl::StrAppend(&line, c > 0 ? "  " : "", numeric[c] ? padding : "", row[c], numeric[c] ? "" : padding);
    }
    absl::StripTrailingAsciiWhitespace(&line);
    absl::StrAppend(&text, line, "\n");
  }
  return text;
}

}  // namespace medley
