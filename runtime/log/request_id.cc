#include "runtime/log/request_id.h"

#include <algorithm>
#include <cstdint>
#include <random>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace medley {
namespace {

constexpr size_t kLongest = 64;

std::string& Current() {
  thread_local std::string id;
  return id;
}

std::string NewRequestId() {
  thread_local std::mt19937_64 random{(uint64_t{std::random_device()()} << 32) | std::random_device()()};
  return absl::StrCat(absl::Hex(random(), absl::kZeroPad16));
}

}  // namespace

bool IsRequestId(absl::string_view text) {
  return !text.empty() && text.size() <= kLongest && std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_' || c == '-';
  });
}

std::string RequestIdOr(absl::string_view given) {
  return IsRequestId(given) ? std::string(given) : NewRequestId();
}

const std::string& CurrentRequestId() { return Current(); }

RequestScope::RequestScope(std::string id) : before_(std::exchange(Current(), std::move(id))) {}

RequestScope::~RequestScope() { Current() = std::move(before_); }

}  // namespace medley
