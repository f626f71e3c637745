#include "runtime/base/id.h"

#include <catch2/catch.hpp>
#include <concepts>
#include <type_traits>
#include <vector>

namespace medley {
namespace {

using Apple = Id<struct AppleTag>;
using Pear = Id<struct PearTag>;

template <typename A, typename B>
concept Comparable = requires(A a, B b) { a == b; };
template <typename A, typename B>
concept Ordered = requires(A a, B b) { a < b; };

static_assert(!std::convertible_to<Apple, Pear> && !std::is_constructible_v<Pear, Apple> &&
              !std::is_assignable_v<Pear&, Apple>);
static_assert(!Comparable<Apple, Pear> && !Ordered<Apple, Pear>);
static_assert(Comparable<Apple, Apple> && Ordered<Apple, Apple> && Comparable<Apple, int>);

TEST_CASE("an id is a number of its kind and an index") {
  const std::vector<int> values = {10, 20, 30};
  Apple apple = 1;
  CHECK(values[apple] == 20);
  CHECK(values[++apple] == 30);
  CHECK(apple == Apple(2));
  CHECK(Apple() == -1);
}

}  // namespace
}  // namespace medley
