#pragma once
#include <compare>

namespace medley {

// A number that counts one kind of thing: units, ranks, micro-batches. It is made from an int and becomes one
// where an int is wanted, as an index; an id of another kind is neither taken for it nor compared with it.
//
//   using Rank = Id<struct RankTag>;
template <typename Tag>
class Id {
 public:
  constexpr Id() = default;
  // NOLINT(google-explicit-constructor): ids are written as numbers in plans.
  constexpr Id(int value) : value_(value) {}
  template <typename Other>
  Id(Id<Other>) = delete;

  constexpr operator int() const { return value_; }  // NOLINT(google-explicit-constructor)
  constexpr int value() const { return value_; }
  constexpr Id& operator++() {
    ++value_;
    return *this;
  }

 private:
  int value_ = -1;  // nothing of the kind
};

template <typename A, typename B>
concept OtherKind = !
__is_same(A, B);

template <typename A, typename B>
  requires OtherKind<A, B> bool
operator==(Id<A>, Id<B>) = delete;
template <typename A, typename B>
  requires OtherKind<A, B>
std::strong_ordering operator<=>(Id<A>, Id<B>) = delete;

}  // namespace medley
