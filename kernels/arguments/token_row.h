#pragma once
#include <cstdint>

namespace medley {

// The row of `token` in the table of an op that has `args.vocabulary` rows of a vocabulary, from
// `args.first_token` on; -1 if it has none.
template <typename Args>
int64_t RowOfToken(const Args& args, int64_t token) {
  const int64_t row = token - args.first_token;
  return row >= 0 && row < args.vocabulary ? row : -1;
}

}  // namespace medley
