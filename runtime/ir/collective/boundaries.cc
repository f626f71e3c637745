#include <algorithm>
#include <limits>

#include "runtime/ir/collective/collective_problem.h"

namespace medley {
namespace {

// Large enough that bandwidth counts, and not latency.
constexpr double kComparedBytes = 1 << 20;
constexpr double kGap = 2;

struct Join {
  double seconds = 0;
  int from = 0, to = 0;
};

// A tree of the fastest links that join all (Prim's), fastest first.
std::vector<Join> FastestTree(const CollectiveProblem& problem) {
  const int n = problem.members;
  constexpr double kJoined = -1;
  std::vector<Join> nearest(n, {std::numeric_limits<double>::infinity(), 0, 0});
  std::vector<Join> tree;
  tree.reserve(n);
  nearest[0].seconds = kJoined;
  for (int last = 0, joined = 1; joined < n; ++joined) {
    int next = -1;
    for (int member = 0; member < n; ++member) {
      Join& join = nearest[member];
      if (join.seconds == kJoined) continue;
      const bool same_host =
          !problem.host_of_member.empty() && problem.host_of_member[last] == problem.host_of_member[member];
      const double seconds = same_host ? 0 : problem.ExchangeSeconds(last, member, kComparedBytes);
      if (seconds < join.seconds) join = {seconds, last, member};
      if (next < 0 || join.seconds < nearest[next].seconds) next = member;
    }
    tree.push_back(nearest[next]);
    tree.back().to = next;
    nearest[next].seconds = kJoined;
    last = next;
  }
  std::sort(tree.begin(), tree.end(), [](const Join& a, const Join& b) { return a.seconds < b.seconds; });
  return tree;
}

// Numbers parts in the order of their first members.
Boundary Numbered(const std::vector<int>& root_of) {
  Boundary parts(root_of.size());
  std::vector<int> number_of_root(root_of.size(), -1);
  int count = 0;
  for (size_t member = 0; member < root_of.size(); ++member) {
    int& number = number_of_root[root_of[member]];
    if (number < 0) number = count++;
    parts[member] = number;
  }
  return parts;
}

}  // namespace

std::vector<Boundary> BoundariesOf(const CollectiveProblem& problem) {
  std::vector<Boundary> boundaries;
  if (problem.members < 3) return boundaries;
  const std::vector<Join> tree = FastestTree(problem);
  std::vector<int> root_of;  // empty until it is needed
  for (size_t i = 0; i < tree.size(); ++i) {
    if (i > 0 && tree[i].seconds > 0 && tree[i].seconds >= kGap * tree[i - 1].seconds) {
      if (root_of.empty()) {
        for (int member = 0; member < problem.members; ++member) root_of.push_back(member);
        for (size_t j = 0; j < i; ++j) {
          const int kept = root_of[tree[j].from], gone = root_of[tree[j].to];
          std::replace(root_of.begin(), root_of.end(), gone, kept);
        }
      }
      boundaries.push_back(Numbered(root_of));
    }
    if (!root_of.empty()) {
      const int kept = root_of[tree[i].from], gone = root_of[tree[i].to];
      std::replace(root_of.begin(), root_of.end(), gone, kept);
    }
  }
  return boundaries;
}

}  // namespace medley
