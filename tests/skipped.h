#pragma once
#include <iostream>
#include <set>
#include <string>

namespace medley {

// How a test says that this machine lacks what it is for: it writes a line that tests/test_summary.py finds,
// and passes, since Bazel knows no third way. To be called on the thread that runs the tests; `what` is said
// once in a process.

namespace internal {
inline void SayOnce(const std::string& prefix, const std::string& what, const std::string& why) {
  static std::set<std::string>& said = *new std::set<std::string>;
  if (said.insert(prefix + what).second) std::cout << "\n" << prefix << what << ", " << why << std::endl;
}
}  // namespace internal

// The whole test is for `what`: it counts as skipped and not as passed.
inline void Skipped(const std::string& what, const std::string& why) {
  internal::SayOnce("SKIPPED: ", what, why);
}

// Some cases are for `what`: they are named in the summary, and the test counts by its others.
inline void PartlySkipped(const std::string& what, const std::string& why) {
  internal::SayOnce("PARTLY SKIPPED: ", what, why);
}

}  // namespace medley
