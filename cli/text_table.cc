#include "cli/text_table.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace medley {
namespace {

bool ContinuesLetter(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

bool IsNumeric(const std::string& cell) {
  return !cell.empty() && (absl::ascii_isdigit(cell[0]) || cell == "-") &&
         cell.find('/') == std::string::npos && cell.find(':') == std::string::npos;
}

// Which columns must go beneath their rows for the others to have room: the widest first, never the first.
std::vector<bool> ColumnsBeneath(const std::vector<size_t>& widths, size_t columns) {
  std::vector<bool> beneath(widths.size(), false);
  if (columns == 0 || widths.empty()) return beneath;
  size_t total = 2 * (widths.size() - 1);
  for (const size_t width : widths) total += width;
  while (total > columns) {
    size_t widest = 0;
    for (size_t c = 1; c < widths.size(); ++c) {
      if (!beneath[c] && (widest == 0 || widths[c] >= widths[widest])) widest = c;
    }
    if (widest == 0) break;
    beneath[widest] = true;
    total -= widths[widest] + 2;
  }
  return beneath;
}

std::string LinesBeneath(const std::string& heading, const std::string& cell, size_t columns) {
  const std::string name = absl::StrCat("    ", absl::AsciiStrToLower(heading), ": ");
  const size_t room = columns > name.size() ? columns - name.size() : 1;
  return absl::StrCat(name, absl::StrJoin(WrapText(cell, room), "\n" + std::string(name.size(), ' ')), "\n");
}

}  // namespace

std::string Printable(const std::string& text) {
  std::string shown;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const auto next = static_cast<unsigned char>(i + 1 < text.size() ? text[i + 1] : '\0');
    if (byte == '\n' || byte == '\t') {
      shown += ' ';
    } else if (byte < 0x20 || byte == 0x7F) {
      absl::StrAppend(&shown, absl::StrFormat("\\x%02x", byte));
    } else if (byte == 0xC2 && next >= 0x80 && next < 0xA0) {
      // Its second byte is the character's number.
      absl::StrAppend(&shown, absl::StrFormat("\\x%02x", next));
      ++i;
    } else {
      shown += text[i];
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

std::vector<std::string> WrapText(const std::string& text, size_t columns) {
  if (columns == 0) return {text};
  std::vector<std::string> lines = {""};
  for (const absl::string_view word : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    const size_t width = DisplayWidth(lines.back()) + 1 + DisplayWidth(std::string(word));
    if (!lines.back().empty() && width > columns) lines.emplace_back();
    absl::StrAppend(&lines.back(), lines.back().empty() ? "" : " ", word);
  }
  return lines;
}

std::string FormatTable(const std::vector<std::vector<std::string>>& rows, size_t columns) {
  if (rows.empty()) return "";
  std::vector<size_t> widths(rows[0].size(), 0);
  std::vector<bool> numeric(rows[0].size(), rows.size() > 1);
  for (size_t r = 0; r < rows.size(); ++r) {
    for (size_t c = 0; c < rows[r].size() && c < widths.size(); ++c) {
      widths[c] = std::max(widths[c], DisplayWidth(rows[r][c]));
      if (r > 0 && !IsNumeric(rows[r][c])) numeric[c] = false;
    }
  }
  const std::vector<bool> beneath = ColumnsBeneath(widths, columns);
  std::string text;
  for (size_t r = 0; r < rows.size(); ++r) {
    std::string line, below;
    for (size_t c = 0; c < rows[r].size() && c < widths.size(); ++c) {
      const std::string& cell = rows[r][c];
      if (beneath[c]) {
        if (r > 0 && !cell.empty()) absl::StrAppend(&below, LinesBeneath(rows[0][c], cell, columns));
        continue;
      }
      const std::string padding(widths[c] - DisplayWidth(cell), ' ');
      absl::StrAppend(&line, c > 0 ? "  " : "", numeric[c] ? padding : "", cell, numeric[c] ? "" : padding);
    }
    absl::StripTrailingAsciiWhitespace(&line);
    absl::StrAppend(&text, line, "\n", below);
  }
  return text;
}

std::vector<std::vector<std::string>> MergeAlike(std::vector<std::vector<std::string>> rows) {
  constexpr size_t kMostRowsAlone = 32;
  if (rows.size() <= kMostRowsAlone) return rows;
  std::vector<std::vector<std::string>> merged;
  std::map<std::vector<std::string>, size_t> places;
  std::vector<int> counts;
  for (std::vector<std::string>& row : rows) {
    const auto [place, inserted] = places.try_emplace({row.begin() + 1, row.end()}, merged.size());
    if (inserted) {
      merged.push_back(std::move(row));
      counts.push_back(0);
    } else {
      ++counts[place->second];
    }
  }
  for (size_t i = 0; i < merged.size(); ++i) {
    if (counts[i] > 0) absl::StrAppend(&merged[i][0], " and ", counts[i], " more");
  }
  return merged;
}

std::string FormatFacts(const std::vector<std::vector<std::string>>& facts, size_t columns) {
  size_t width = 0;
  for (const std::vector<std::string>& fact : facts) width = std::max(width, DisplayWidth(fact[0]));
  const std::string indent(width + 2, ' ');
  const size_t room = columns > indent.size() ? columns - indent.size() : 0;
  std::string text;
  for (const std::vector<std::string>& fact : facts) {
    absl::StrAppend(&text, fact[0], std::string(width - DisplayWidth(fact[0]), ' '), "  ",
                    absl::StrJoin(WrapText(fact[1], room), absl::StrCat("\n", indent)), "\n");
  }
  return text;
}

}  // namespace medley
