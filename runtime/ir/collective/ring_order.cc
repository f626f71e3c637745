#include "runtime/ir/collective/ring_order.h"

#include <algorithm>

namespace medley {
namespace {

std::vector<int> NearestNeighbours(const CollectiveProblem& problem, const std::vector<double>& seconds) {
  const int n = problem.members;
  std::vector<int> order = {0};
  order.reserve(n);
  std::vector<bool> taken(n);
  taken[0] = true;
  while (static_cast<int>(order.size()) < n) {
    const int last = order.back();
    int next = -1;
    for (int member = 0; member < n; ++member) {
      if (taken[member]) continue;
      if (next < 0 || seconds[last * n + member] < seconds[last * n + next]) next = member;
    }
    taken[next] = true;
    order.push_back(next);
  }
  return order;
}

// Takes two edges out and joins their ends the other way, wherever that makes the slower of the two faster,
// or leaves it and makes the other faster. The sorted list of edges falls with each exchange, so that there
// is an end.
void ExchangeEdges(int n, const std::vector<double>& seconds, std::vector<int>& order) {
  const auto edge = [&](int a, int b) { return seconds[a * n + b]; };
  const auto slower_first = [](double a, double b) { return std::pair(std::max(a, b), std::min(a, b)); };
  for (bool any = true; any;) {
    any = false;
    for (int i = 0; i + 2 < n; ++i) {
      for (int j = i + 2; j < n; ++j) {
        const int a = order[i], b = order[i + 1], c = order[j], d = order[(j + 1) % n];
        if (a == d) continue;
        if (slower_first(edge(a, c), edge(b, d)) < slower_first(edge(a, b), edge(c, d))) {
          std::reverse(order.begin() + i + 1, order.begin() + j + 1);
          any = true;
        }
      }
    }
  }
}

}  // namespace

std::vector<int> RingOrder(const CollectiveProblem& problem) {
  const int n = problem.members;
  const double bytes = problem.wire_bytes_per_element * static_cast<double>(problem.elements) / n;
  std::vector<double> seconds(static_cast<size_t>(n) * n);
  for (int a = 0; a < n; ++a) {
    for (int b = 0; b < a; ++b) {
      seconds[a * n + b] = seconds[b * n + a] =
          std::max(problem.ExchangeSeconds(a, b, bytes), problem.ExchangeSeconds(b, a, bytes));
    }
  }
  std::vector<int> order = NearestNeighbours(problem, seconds);
  if (n <= kMostExchanged) ExchangeEdges(n, seconds, order);
  return order;
}

}  // namespace medley
