#pragma once
#include <string>
#include <vector>

namespace medley {

// What arrives over the wire as it may be shown on a terminal: control bytes (colours, cursor movements)
// escaped, line breaks as blanks.
std::string Printable(const std::string& text);

// Lines of cells in columns two blanks apart, the first line a heading; cells that hold numbers are
// right-aligned. No blanks at line ends. Rows may be shorter than the heading.
std::string FormatTable(const std::vector<std::vector<std::string>>& rows);

// Columns that `text` takes on a terminal, if none of its letters is wider than one.
size_t DisplayWidth(const std::string& text);

// At most `columns` columns of `text`; "…" stands for what was cut.
std::string CutToWidth(const std::string& text, size_t columns);

}  // namespace medley
