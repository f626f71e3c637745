#include "cli/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>

#include "absl/strings/str_cat.h"

namespace medley {
namespace {

constexpr size_t kUsualColumns = 80, kUsualRows = 24;

size_t TerminalRows() {
  winsize size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 ? size.ws_row : kUsualRows;
}

}  // namespace

size_t TerminalColumns() {
  if (isatty(STDOUT_FILENO) != 1) return 0;
  winsize size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kUsualColumns;
}

void LiveDisplay::Draw(std::vector<std::string> lines) {
  // What scrolled away could not be drawn anew.
  if (lines.size() >= TerminalRows()) lines.resize(TerminalRows() - 1);
  std::string text;
  if (drawn_ > 0) absl::StrAppend(&text, "\x1b[", drawn_, "A\r");
  // Cleared to the end of the screen first: there may be fewer lines than before.
  absl::StrAppend(&text, "\x1b[J");
  for (const std::string& line : lines) absl::StrAppend(&text, line, "\n");
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
  drawn_ = lines.size();
}

}  // namespace medley
