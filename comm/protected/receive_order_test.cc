#include "comm/protected/receive_order.h"

#include <catch2/catch.hpp>
#include <deque>
#include <random>

namespace medley {
namespace {

TEST_CASE(
    "receives are due the numbers in the order in which they were posted, whenever they are looked at") {
  ReceiveOrder order;
  const uint64_t first = order.Post(), second = order.Post();
  CHECK(order.Due(second) == 1);
  order.Take(second);
  CHECK(order.Due(first) == 0);
  order.Take(first);
  CHECK(order.Due(order.Post()) == 2);
}

TEST_CASE("who goes without a message leaves its number to those after it", "[property]") {
  const uint64_t seed = GENERATE(range(uint64_t{0}, uint64_t{20}));
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  ReceiveOrder order;
  std::deque<uint64_t> open;  // as they were posted; the first gets the next message
  uint64_t came = 0;
  for (int i = 0; i < 300; ++i) {
    const uint64_t what = random() % 3;
    if (what == 0 || open.empty()) {
      open.push_back(order.Post());
    } else if (what == 1) {
      const auto gone = open.begin() + static_cast<ptrdiff_t>(random() % open.size());
      order.Cancel(*gone);
      open.erase(gone);
    } else {
      CHECK(order.Due(open.front()) == came++);
      order.Take(open.front());
      open.pop_front();
    }
    for (size_t k = 0; k < open.size(); ++k) CHECK(order.Due(open[k]) == came + k);
  }
}

}  // namespace
}  // namespace medley
