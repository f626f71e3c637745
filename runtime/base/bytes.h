#pragma once
#include <compare>
#include <cstdint>
#include <string>

namespace medley {

// A size in bytes.
struct Bytes {
  int64_t value = 0;
  friend auto operator<=>(const Bytes&, const Bytes&) = default;
  friend constexpr Bytes operator+(Bytes a, Bytes b) { return {a.value + b.value}; }
  friend constexpr Bytes operator-(Bytes a, Bytes b) { return {a.value - b.value}; }
  friend constexpr Bytes operator*(Bytes a, int64_t n) { return {a.value * n}; }
  friend constexpr Bytes operator*(int64_t n, Bytes a) { return {a.value * n}; }
  Bytes& operator+=(Bytes b) {
    value += b.value;
    return *this;
  }
  Bytes& operator-=(Bytes b) {
    value -= b.value;
    return *this;
  }
};
constexpr Bytes KiB(int64_t n) { return {n << 10}; }
constexpr Bytes MiB(int64_t n) { return {n << 20}; }
constexpr Bytes GiB(int64_t n) { return {n << 30}; }

// For people: "512 B", "3.4 KiB", "1.2 GiB".
std::string FormatBytes(Bytes size);

// "512MiB", "1.5 GiB", "1073741824", "64 kB" (powers of 1000 without the i). -1 B if `text` is none of these.
Bytes ParseBytes(const std::string& text);

}  // namespace medley
