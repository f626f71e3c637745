#include "tests/fuzz/mutate.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace medley {
namespace {

constexpr size_t kMostBytes = 64 << 10;

// Words that texts trip over.
constexpr const char* kWords[] = {"-1",
                                  "0",
                                  "1e999",
                                  "-0.0",
                                  "nan",
                                  "18446744073709551616",
                                  "9223372036854775807",
                                  "null",
                                  "true",
                                  "{}",
                                  "[]",
                                  "[[[[[[[[[[[[[[[[[[[[",
                                  "\"",
                                  "\\u0000",
                                  ": ",
                                  "- ",
                                  "\n",
                                  "&a",
                                  "*a",
                                  "!!str",
                                  "%",
                                  "\xff",
                                  "../..",
                                  "\t",
                                  "|\n",
                                  "<<:",
                                  ".inf",
                                  "0x10"};

uint64_t ExtremeInteger(size_t size, std::mt19937_64& random) {
  const uint64_t extremes[] = {0,
                               1,
                               ~uint64_t{0},
                               0x7F,
                               0x80,
                               0x7FFF,
                               0x8000,
                               0xFFFF,
                               0x7FFFFFFF,
                               0x80000000,
                               0xFFFFFFFF,
                               0x7FFFFFFFFFFFFFFF,
                               0x8000000000000000,
                               size,
                               size + 1,
                               size - 1,
                               random() % 64};
  return extremes[random() % std::size(extremes)];
}

void MutateOnce(std::string& bytes, const std::vector<std::string>& others, std::mt19937_64& random) {
  const size_t size = bytes.size();
  const size_t at = random() % (size + 1),
               length = random() % std::min<size_t>(size - at + 1, 1 + random() % 64);
  switch (random() % 10) {
    case 0:
    case 1:
      if (size > 0) bytes[random() % size] ^= static_cast<char>(1 << random() % 8);
      return;
    case 2:
      if (size > 0) bytes[random() % size] = static_cast<char>(random());
      return;
    case 3:
      bytes.resize(at);
      return;
    case 4:
      bytes.erase(at, length);
      return;
    case 5:
      bytes.insert(at, bytes.substr(random() % (size + 1), 1 + random() % 64));
      return;
    case 6:
      for (size_t i = 1 + random() % 8; i > 0; --i)
        bytes.insert(bytes.begin() + at, static_cast<char>(random()));
      return;
    case 7: {
      const uint64_t value = ExtremeInteger(size, random);
      const size_t width = std::min<size_t>(size_t{1} << random() % 4, size - at);
      std::memcpy(bytes.data() + at, &value, width);
      return;
    }
    case 8: {
      const char* word = kWords[random() % std::size(kWords)];
      bytes.replace(at, random() % 2 == 0 ? 0 : std::min(std::strlen(word), size - at), word);
      return;
    }
    default: {
      const std::string& other = others[random() % others.size()];
      const size_t from = random() % (other.size() + 1);
      bytes.replace(at, random() % 2 == 0 ? length : size - at, other.substr(from, 1 + random() % 128));
    }
  }
}

}  // namespace

std::string Mutate(std::string bytes, const std::vector<std::string>& others, std::mt19937_64& random) {
  for (size_t i = 1 + random() % 6; i > 0; --i) MutateOnce(bytes, others, random);
  if (bytes.size() > kMostBytes) bytes.resize(kMostBytes);
  return bytes;
}

}  // namespace medley
