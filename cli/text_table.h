#pragma once
#include <string>
#include <vector>

namespace medley {

// What arrives over the wire as it may be shown on a terminal: control characters (colours, cursor movements), those
// of two bytes in UTF-8 (U+0080 to U+009F), too, escaped; line breaks as blanks.
std::string Printable(const std::string& text);

// Lines of cells in columns two blanks apart, the first line a heading; cells that hold numbers are
// right-aligned. No blanks at line ends. Rows may be shorter than the heading. `columns`: of the terminal; 0
// for a pipe or a file, where lines may be as long as they are. A table that is wider has its
// widest columns, but for the first, on lines of their own beneath their row, "    why: ...".
std::string FormatTable(const std::vector<std::vector<std::string>>& rows, size_t columns = 0);

// `rows` as of FormatTable, each of which has a first cell. Of more than 32 of them with the heading those that differ in nothing but
// their first cell are one, where the first of them stood: "a/gpu0 and 31 more".
std::vector<std::vector<std::string>> MergeAlike(std::vector<std::vector<std::string>> rows);

// Lines of "name  value", the values below each other; `columns` as above, for values that are longer.
std::string FormatFacts(const std::vector<std::vector<std::string>>& facts, size_t columns = 0);

// `text` broken at blanks into lines of at most `columns`, if no word is longer; 0: one line.
std::vector<std::string> WrapText(const std::string& text, size_t columns);

// Columns that `text` takes on a terminal, if none of its letters is wider than one.
size_t DisplayWidth(const std::string& text);

// At most `columns` columns of `text`; "…" stands for what was cut.
std::string CutToWidth(const std::string& text, size_t columns);

}  // namespace medley
