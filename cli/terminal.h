#pragma once
#include <string>
#include <vector>

namespace medley {

// The columns of the terminal that standard output is; 0 if it is none.
size_t TerminalColumns();

// Lines on standard output, a terminal, that take the place of those before. One thread.
class LiveDisplay {
 public:
  // No line may be wider than the terminal. Those that it has no room for are left out.
  void Draw(std::vector<std::string> lines);

 private:
  size_t drawn_ = 0;
};

}  // namespace medley
